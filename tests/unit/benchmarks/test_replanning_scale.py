"""Planning again at scale, in small: what is measured, and which bars are missed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks import replanning_scale
from benchmarks.replanning_scale import Row, missed, record_of, solves
from planner.pipeline.solve import run as solve


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(solves(["uniform", "heterogeneous, offload"], 3, 6, cold_s=5.0, warm_s=5.0))


def test_every_case_is_planned_afresh_and_then_from_the_plan_that_runs(rows: list[Row]) -> None:
    assert [row.solve for row in rows] == ["afresh", "drifted", "drifted, straggler"] * 2
    for row in rows:
        origin = row.document["provenance"]["started_from"]
        assert (origin is None) == (row.solve == "afresh")
        assert row.wrong is None
    # The last of three stages begins after two forwards of 10 ms and two hops of 1 ms, and then
    # computes 30 ms for each of six micro-batches.
    uniform = rows[0].certificate["value_ns"]
    assert uniform >= (6 * 30 + 2 * 11) * 1_000_000
    straggled = rows[2].certificate["value_ns"]
    assert straggled > rows[1].certificate["value_ns"]


def test_missed_bars_are_in_the_table(rows: list[Row]) -> None:
    good = replace(rows[0], wall_s=1.0)
    assert missed(good) == []
    slow = replace(good, wall_s=6.0)
    assert missed(slow) == ["time"]
    unsafe = {
        "certificate": {**good.certificate, "memory_safe_under_jitter": False},
        "provenance": {"started_from": None},
    }
    bad = replace(good, wrong="overlaps", document=unsafe)
    assert missed(bad) == ["valid (overlaps)", "waits proven"]
    record = record_of([good, slow, bad], 3, 6, {"machine": "one"})
    assert [row[-1] for row in record.tables[0].rows] == [
        "met",
        "time: MISSED",
        "valid (overlaps): MISSED; waits proven: MISSED",
    ]


def test_a_solve_without_a_plan_misses_its_bar_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = {"state": "failed", "code": "no_plan_within_limit", "detail": "Too little time."}
    monkeypatch.setattr(replanning_scale, "run", lambda *_: failed)
    rows = list(solves(["uniform"], 3, 6, cold_s=5.0, warm_s=5.0))
    assert [missed(row) for row in rows] == [["valid (Too little time.)"]]
    record = record_of(rows, 3, 6, {"machine": "one"})
    assert record.tables[0].rows[0][-1] == "valid (Too little time.): MISSED"
    assert record.figures == []


def test_a_schedule_that_breaks_the_rules_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def lying(*arguments: Any) -> dict[str, Any]:
        answer = solve(*arguments)
        answer["document"]["schedule"]["makespan_ns"] += 1
        return answer

    monkeypatch.setattr(replanning_scale, "run", lying)
    (row, *_) = solves(["uniform"], 3, 6, cold_s=5.0, warm_s=5.0)
    assert row.wrong is not None
    assert "makespan_ns" in row.wrong


def test_later_runs_are_compared_case_by_case(rows: list[Row]) -> None:
    record = record_of(rows, 3, 6, {"machine": "one"})
    figures = {figure.name: figure for figure in record.figures}
    assert len(figures) == 2 * len(rows)
    makespan = figures["makespan, uniform, drifted"]
    assert makespan.value == rows[1].certificate["value_ns"] / 1e6
