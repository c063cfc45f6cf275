"""The table of jobs cuts names, never identifiers, states or numbers."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from client.listing import job_table
from tests.unit.client.fake_service import job

ID = "0b0a5c1e-6f0e-4d6e-9d0a-0123456789ab"
LONG = {"id": ID, "name": "GPT-14.2B on 8 x A100-40GB, interleaved_4", "tags": ["nightly", "x"]}
FIGURES = {"best_makespan_ns": 14_867_123_000, "gap": 0.2478}


def lines(width: int, *jobs: dict[str, Any]) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width)
    console.print(job_table(jobs, width), crop=False)
    return [line.rstrip() for line in file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [20, 40, 80, 100, 160])
def test_identifiers_states_and_numbers_are_whole(width: int) -> None:
    table = lines(width, job("infeasible", **LONG), job("cancelled", **LONG, **FIGURES))
    assert len(table) == 3
    assert table[1].split()[:2] == [ID, "infeasible"]
    assert table[2].startswith(f"{ID}  cancelled   14867.123 ms  24.78 %")
    if width >= 80:
        assert all(len(line) <= width for line in table)


def test_long_name_is_cut_on_one_line() -> None:
    assert lines(80, job("succeeded", **LONG, **FIGURES))[1] == (
        f"{ID}  succeeded  14867.123 ms  24.78 %  GPT-14.…"
    )


def test_wide_terminal_shows_everything() -> None:
    row = lines(160, job("succeeded", **LONG, **FIGURES))[1]
    assert row.endswith("GPT-14.2B on 8 x A100-40GB, interleaved_4  nightly x")


def test_name_is_shown_as_it_is_but_on_one_line() -> None:
    assert lines(80, job("failed", name="[red]a\nb"))[1].endswith("[red]a b")


def test_each_kind_has_its_unit() -> None:
    sharding = job("succeeded", kind="sharding", best_objective_bytes=3 * 2**30, gap=0.0)
    training = job("succeeded", kind="training", best_step_time_ns=2_000_000, gap=0.0)
    table = lines(100, job("succeeded", **FIGURES), sharding, training, job("queued"))
    assert "14867.123 ms" in table[1]
    assert "3.000 GiB" in table[2]
    assert "2.000 ms" in table[3]
    assert "–" in table[4]
