"""Planning again at scale, in small: what is measured, and which bars are missed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.replanning_scale import Row, missed, record_of, solves


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return list(solves(["uniform", "heterogeneous, offload"], 3, 6, cold_s=5.0, warm_s=5.0))


def test_every_case_is_planned_afresh_and_then_from_the_plan_that_runs(rows: list[Row]) -> None:
    assert [row.solve for row in rows] == ["afresh", "drifted", "drifted, straggler"] * 2
    for row in rows:
        origin = row.document["provenance"]["started_from"]
        assert (origin is None) == (row.solve == "afresh")
        assert row.is_valid
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
    bad = replace(good, is_valid=False, document=unsafe)
    assert missed(bad) == ["valid", "waits proven"]
    record = record_of([good, slow, bad], 3, 6, {"machine": "one"})
    assert [row[-1] for row in record.tables[0].rows] == [
        "met",
        "time: MISSED",
        "valid: MISSED; waits proven: MISSED",
    ]


def test_later_runs_are_compared_case_by_case(rows: list[Row]) -> None:
    record = record_of(rows, 3, 6, {"machine": "one"})
    figures = {figure.name: figure for figure in record.figures}
    assert len(figures) == 2 * len(rows)
    makespan = figures["makespan, uniform, drifted"]
    assert makespan.value == rows[1].certificate["value_ns"] / 1e6
