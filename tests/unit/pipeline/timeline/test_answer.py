"""Timelines of an answer: of rows of the comparison, made again."""

from __future__ import annotations

from typing import Any

import pytest

from planner.pipeline.classic.rows import (
    PIPE_OFFLOAD,
    comparison_rows,
    row_document,
    schedules_named,
)
from planner.pipeline.documents import problem_to_document
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.timeline.answer import has_problem_of, own_timeline, row_timeline
from tests.problems import uniform_problem

OFFLOADS = {"offload_bytes": 3, "offload_ns": 5, "reload_ns": 5}


def answer_of(problem: PipelineProblem) -> dict[str, Any]:
    return {
        "problem": problem_to_document(problem),
        "comparison": [row_document(row) for row in comparison_rows(problem)],
        "certificate": {"placements": [{"placement": "as_posted", "lower_bound_ns": 5}]},
        "provenance": {"placement": "as_posted"},
    }


@pytest.mark.parametrize("chunks", [1, 2])
def test_each_row_is_made_again(chunks: int) -> None:
    problem = uniform_problem(chunks=chunks, limit=20, transfer_ns=2, **OFFLOADS)
    answer = answer_of(problem)
    for row in answer["comparison"]:
        assert has_problem_of(answer, row)
        timeline = row_timeline(answer, row, problem)
        assert timeline is not None
        assert timeline["makespan_ns"] == row["makespan_ns"]
        assert [d["peak_bytes"] for d in timeline["devices"]] == row["peak_memory_bytes"]
        assert timeline["ops"]["op"].count("R") == row["offloads"]
        # Each operation is as early as its order allows; only what is offloaded around a known
        # computation may leave room.
        if not row["offloads"]:
            assert "slack" not in timeline["ops"]["waits_for"], row["name"]


def test_pipe_offload_is_the_one_that_the_row_tells_of() -> None:
    """A solve that ran out of time compares with the best of the family up to then."""
    problem = uniform_problem(limit=14, **OFFLOADS)
    answer = answer_of(problem)
    row = next(row for row in answer["comparison"] if row["name"] == PIPE_OFFLOAD)
    family = list(schedules_named(problem, PIPE_OFFLOAD))
    assert len({(timed.makespan_ns, timed.peak_memory_bytes) for timed in family}) > 2
    for timed in family:
        figures = {
            "makespan_ns": timed.makespan_ns,
            "steady_span_ns": timed.steady_span_ns,
            "peak_memory_bytes": list(timed.peak_memory_bytes),
            "offloads": timed.offloads,
        }
        timeline = row_timeline(answer, {**row, **figures}, problem)
        assert timeline is not None
        assert timeline["makespan_ns"] == timed.makespan_ns
        starts = zip(timeline["ops"]["op"], timeline["ops"]["start_ns"], strict=True)
        assert sorted(starts) == sorted((op.op, op.start_ns) for op in timed.schedule.ops)
    other = {**row, "makespan_ns": row["makespan_ns"] + 1}
    assert row_timeline(answer, other, problem) is None


def test_the_own_schedule_with_its_waits() -> None:
    problem = uniform_problem(devices=2, micro_batches=1)
    times = (("F", 0, 0, 10), ("F", 1, 10, 20), ("B", 1, 20, 32), ("B", 0, 32, 44))
    weights = (("W", 0, 44, 52), ("W", 1, 44, 52))
    names = ("op", "stage", "start_ns", "end_ns")
    ops = [{**dict(zip(names, op, strict=True)), "micro_batch": 0} for op in (*times, *weights)]
    before = {"op": "B", "stage": 0, "micro_batch": 0}
    wait = {"op": "W", "stage": 1, "micro_batch": 0, "after": [before]}
    answer = {
        "problem": problem_to_document(problem),
        "schedule": {"ops": ops, "lower_bound_ns": 40, "waits": [wait]},
        "provenance": {"placement": "one_chunk"},
    }
    timeline = own_timeline(answer)
    assert (timeline["schedule"], timeline["placement"]) == ("Loadmaster", "one_chunk")
    assert (timeline["makespan_ns"], timeline["lower_bound_ns"]) == (52, 40)
    assert timeline["devices"][1]["idle_ns"]["memory"] == 12
    del answer["schedule"]["waits"]
    assert own_timeline(answer)["devices"][1]["idle_ns"]["slack"] == 12
