"""Each format's file of a small fixed answer, beside which a change shows in review.

`LOADMASTER_WRITE_GOLDEN=1 pytest tests/unit/export/test_golden.py` writes the files anew; look at
what has changed before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner.export.registry import FORMATS, export
from tests.unit.export.answers import SOURCES

GOLDEN = Path(__file__).parent / "golden"
WRITE = "LOADMASTER_WRITE_GOLDEN"


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, own.name) for kind, formats in FORMATS.items() for own in formats]
)
def test_the_file_is_the_same_as_ever(kind: str, name: str) -> None:
    own, text = export(SOURCES[kind](), name)
    path = GOLDEN / f"{kind}-{own.name}.{own.extension}"
    if os.environ.get(WRITE):
        path.write_text(text, newline="")
    assert path.exists(), f"There is no {path.name}: write it with {WRITE}=1, and read it."
    with path.open(newline="") as file:
        assert file.read() == text


def test_every_golden_file_is_of_a_format() -> None:
    known = {
        f"{kind}-{own.name}.{own.extension}" for kind, formats in FORMATS.items() for own in formats
    }
    assert {path.name for path in GOLDEN.iterdir()} == known
