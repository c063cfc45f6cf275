"""What a run is kept as, and what is called worse than in the run before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import pytest

from benchmarks.recording import Figure, Record, Table, as_document, as_markdown, keep, worsened


def record(figures: Sequence[Figure] = (), **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "title": "How long it takes",
        "command": "python -m benchmarks.it --fast",
        "note": "Of one thing.",
        "tables": [Table("Times", ("what", "s"), [("a|b", "1.0")], "Less is better.")],
        "figures": figures,
        "environment": {"machine": "2 cores"},
    }
    return Record(**fields | changes)


def complaints(
    before: float,
    after: float,
    better: Literal["less", "more"],
    noise: float = 0.1,
    least: float = 0.0,
) -> list[str]:
    old = Figure("time", before, "s", better)
    return list(worsened([asdict(old)], [Figure("time", after, "s", better, noise, least)]))


@pytest.mark.parametrize(
    ("before", "after", "better", "is_worse"),
    [
        (10.0, 10.9, "less", False),
        (10.0, 11.1, "less", True),
        (10.0, 1.0, "less", False),
        (10.0, 9.1, "more", False),
        (10.0, 8.9, "more", True),
        (10.0, 99.0, "more", False),
        # Of figures below zero the noise is a share of their size.
        (-10.0, -9.1, "less", False),
        (-10.0, -8.9, "less", True),
    ],
)
def test_a_change_for_the_worse_beyond_the_noise_is_named(
    before: float, after: float, better: Literal["less", "more"], is_worse: bool
) -> None:
    assert bool(complaints(before, after, better)) == is_worse


def test_the_sentence_has_both_values_and_their_unit() -> None:
    assert complaints(1234.5, 2000, "less") == ["time: was 1,234 s, is 2,000 s"]


def test_a_small_change_of_a_small_figure_is_none() -> None:
    assert complaints(0.01, 0.4, "less", least=0.5) == []
    assert complaints(0.01, 0.6, "less", least=0.5) != []
    # The larger of the two counts.
    assert complaints(100, 109, "less", noise=0.1, least=0.5) == []


def test_a_figure_that_is_gone_is_named_and_a_new_one_is_not() -> None:
    old = asdict(Figure("gone", 3, "", "less"))
    assert list(worsened([old], [Figure("new", 5, "", "less")])) == [
        "gone: was 3, is not measured now"
    ]


def test_each_run_is_compared_with_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def kept(value: float) -> list[str]:
        return keep("it", record([Figure("time", value, "s", "less")]), tmp_path)

    assert kept(1.0) == []
    assert capsys.readouterr().err == ""
    assert kept(2.0) == ["time: was 1 s, is 2 s"]
    assert capsys.readouterr().err == "worse: time: was 1 s, is 2 s\n"
    document = json.loads((tmp_path / "it.json").read_text())
    assert document["worse"] == ["time: was 1 s, is 2 s"]
    assert "**Worse than in the run before: time: was 1 s, is 2 s.**" in (
        (tmp_path / "it.md").read_text()
    )
    # What was worse once is the measure of the next.
    assert kept(2.0) == []
    assert json.loads((tmp_path / "it.json").read_text())["worse"] == []


def test_what_is_kept_is_what_was_measured(tmp_path: Path) -> None:
    made = record([Figure("time", 1.5, "s", "less", 0.3)], images=["it.svg"])
    keep("it", made, tmp_path)
    document = json.loads((tmp_path / "it.json").read_text())
    date = document.pop("date")
    assert len(date) == len("2026-01-31")
    assert document == json.loads(json.dumps({**asdict(made), "worse": []}))
    assert (tmp_path / "it.md").read_text() == "\n".join(as_markdown(as_document(made), "#"))


def test_markdown_of_a_record() -> None:
    document = as_document(record(images=["it.svg"]), ["time: was 1 s, is 2 s"])
    document["date"] = "2026-01-31"
    assert "\n".join(as_markdown(document, "###", images="images/results")).splitlines() == [
        "### How long it takes",
        "",
        "Of one thing.",
        "",
        "![How long it takes](images/results/it.svg)",
        "",
        "#### Times",
        "",
        "Less is better.",
        "",
        "| what | s |",
        "| --- | --- |",
        # A bar in a cell would end it.
        "| a\\|b | 1.0 |",
        "",
        "**Worse than in the run before: time: was 1 s, is 2 s.**",
        "",
        "- again: `python -m benchmarks.it --fast`",
        "- date: 2026-01-31",
        "- machine: 2 cores",
    ]


def test_without_a_folder_of_images_there_are_none() -> None:
    document = as_document(record(images=["it.svg"]))
    assert "it.svg" not in "\n".join(as_markdown(document, "#"))


def test_a_table_may_have_neither_title_nor_note() -> None:
    document = as_document(record(tables=[Table("", ("a",), [("1",)])]))
    lines = list(as_markdown(document, "#"))
    assert lines[2:5] == ["| a |", "| --- |", "| 1 |"]
