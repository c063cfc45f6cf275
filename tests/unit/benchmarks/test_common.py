"""Which runs of a benchmark have the arguments of the record that is kept."""

from __future__ import annotations

import pytest

from benchmarks.common import is_default, parser_for


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], True),
        (["--seconds", "5"], True),
        (["--seconds", "1"], False),
        (["--checker", "it.py"], True),
        (["--checker", "it.py", "--seconds", "1"], False),
    ],
)
def test_only_runs_as_without_arguments_are_kept(arguments: list[str], expected: bool) -> None:
    parser = parser_for("It.")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--checker")
    assert is_default(parser, parser.parse_args(arguments), "checker") == expected


def test_without_ignored_ones_every_argument_counts() -> None:
    parser = parser_for("It.")
    parser.add_argument("--checker")
    assert not is_default(parser, parser.parse_args(["--checker", "it.py"]))
