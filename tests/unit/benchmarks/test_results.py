"""The page of results has every record in its place, and what got worse on top."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import results
from benchmarks.recording import FOLDER, Figure, Record, Table, as_document

NAMES = [name for names in results.PARTS.values() for name in names]


def document(name: str, worse: tuple[str, ...] = ()) -> dict[str, Any]:
    record = Record(
        title=f"Title of {name}",
        command=f"python -m benchmarks.{name}",
        note="",
        tables=[Table("", ("a",), [("1",)])],
        figures=[Figure("a", 1, "s", "less")],
        environment={},
    )
    return as_document(record, worse)


def headings(text: str) -> list[str]:
    return re.findall(r"^##+ .*", text, re.MULTILINE)


def test_records_stand_in_the_order_of_their_parts() -> None:
    text = "\n".join(results.page({name: document(name) for name in reversed(NAMES)}))
    expected = []
    for part, names in results.PARTS.items():
        expected += [f"## {part}", *(f"### Title of {name}" for name in names)]
    assert headings(text) == expected
    assert "Worse than" not in text


def test_what_got_worse_stands_before_all_parts() -> None:
    name = NAMES[-1]
    text = "\n".join(results.page({name: document(name, ("time: was 1 s, is 2 s",))}))
    top, _, rest = text.partition("\n## ")
    assert f"- Title of {name}: time: was 1 s, is 2 s" in top
    # And again in its place.
    assert "**Worse than in the run before: time: was 1 s, is 2 s.**" in rest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of records of its own, and a page there."""
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(sys, "argv", ["results"])
    return tmp_path


def write(folder: Path, name: str, worse: tuple[str, ...] = ()) -> None:
    (folder / f"{name}.json").write_text(json.dumps(document(name, worse)))


def test_missing_records_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES[1:]:
        write(folder, name)
    assert results.main() == 1
    assert capsys.readouterr().err == f"not measured: {NAMES[0]}\n"
    assert f"Title of {NAMES[1]}" in (folder / "results.md").read_text()


def test_all_records_make_the_whole_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        write(folder, name, ("time: was 1 s, is 2 s",) if name == NAMES[0] else ())
    assert results.main() == 0
    assert capsys.readouterr().out == f"worse: {NAMES[0]}: time: was 1 s, is 2 s\n"


def test_every_part_of_the_page_was_measured() -> None:
    assert [name for name in NAMES if name not in results.kept_records()] == []


def test_every_record_has_its_place_on_the_page() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} - set(NAMES) == set()
    assert len(NAMES) == len(set(NAMES))


def test_every_record_is_also_there_to_read() -> None:
    for path in FOLDER.glob("*.json"):
        text = path.with_suffix(".md").read_text()
        assert text.startswith(f"# {json.loads(path.read_text())['title']}\n"), path
