"""The benchmark of telemetry: its plan is valid, a short run is taken whole, bars are judged."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.recording import as_document, as_markdown
from benchmarks.telemetry.bench import MICRO_BATCHES, STAGES, TIME_NS, all_forward_all_backward
from benchmarks.telemetry.measure import measured
from benchmarks.telemetry.report import missed, record_of
from planner.pipeline.documents import read_problem
from planner.pipeline.schedule import TimedOp
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify

GOOD: dict[str, Any] = {
    "database": "SQLite",
    "steady": {
        "count": 1000, "seconds": 2.5, "per_s": 400.0, "p50_ms": 4.0, "p95_ms": 9.0, "p99_ms": 20.0,
        "max_ms": 40.0, "statuses": {"200": 1000},
    },
    "burst": {"count": 100, "per_s": 700.0, "statuses": {"200": 100}},
    "cpu_ms": 1.2,
    "runs": 50,
    "due_per_s": 400.0,
}  # fmt: skip


def test_the_plan_that_runs_begin_with_is_valid() -> None:
    passes = ("forward_ns", "backward_input_ns", "backward_weight_ns")
    problem = read_problem(
        {
            "micro_batches": MICRO_BATCHES,
            "devices": [{}] * STAGES,
            "stages": [
                {"device": stage, **dict.fromkeys(passes, TIME_NS)} for stage in range(STAGES)
            ],
        }
    )
    ops = [TimedOp(**op) for op in all_forward_all_backward()]
    assert verify(problem, schedule_from_ops(problem, ops)) == []


@pytest.mark.timeout(400)
def test_a_short_run_is_taken_whole() -> None:
    figures = measured("SQLite", posts=160, runs=4, per_second=80, burst_s=0.2)
    assert figures["steady"]["count"] == 160
    assert figures["steady"]["statuses"] == {"200": 160}
    assert figures["burst"]["statuses"].keys() == {"200"}
    # What was taken can be read.
    assert figures["kept"] >= 160 // 4 - 20


@pytest.mark.parametrize(
    ("change", "bar"),
    [
        ({}, None),
        ({"per_s": 300.0}, "100000 posts in 300 s"),
        ({"p99_ms": 51.0}, "p99 ≤ 50 ms"),
        ({"statuses": {"200": 999, "503": 1}}, "every post taken"),
    ],
)
def test_a_missed_bar_is_named(change: dict[str, Any], bar: str | None) -> None:
    row = {**GOOD, "steady": {**GOOD["steady"], **change}}
    assert missed(row) == ([] if bar is None else [bar])
    record = record_of([row], {"machine": "one"})
    assert record.tables[0].rows[0][-1] == ("met" if bar is None else f"{bar}: MISSED")


def test_later_runs_are_compared_by_database() -> None:
    record = record_of([GOOD, GOOD | {"database": "PostgreSQL"}], {"machine": "one"})
    figures = {figure.name: (figure.value, figure.better) for figure in record.figures}
    assert figures["p99, SQLite"] == (20.0, "less")
    assert figures["posts taken at most, PostgreSQL"] == (700.0, "more")
    assert len(figures) == 8
    assert (
        "| SQLite | 50 | 1,000 | 400 | 2 | 400.0 | 4.0 | 9.0 | 20.0 | 40.0 | 1.20 | 700 | met |"
        in (as_markdown(as_document(record), "#"))
    )
