"""The figures that a schedule is judged by."""

from __future__ import annotations

from collections.abc import Iterable

from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.schedule import COMPUTE_KINDS, Schedule, TimedOp


def spans_ns(problem: PipelineProblem, ops: Iterable[TimedOp]) -> tuple[int, int]:
    """Makespan and steady span of timed operations, epilogues included (rule 7)."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    device = [stage.device for stage in problem.stages]
    for op, s, _, start, end in ops:
        if op in COMPUTE_KINDS:
            d = device[s]
            if d not in first:
                first[d], last[d] = start, end
                continue
            if start < first[d]:
                first[d] = start
            if end > last[d]:
                last[d] = end
    ends = {d: end + problem.devices[d].epilogue_ns for d, end in last.items()}
    makespan = max(ends.values()) - min(first.values())
    return makespan, max(ends[d] - first[d] for d in ends)


def objective_of_ops_ns(problem: PipelineProblem, ops: Iterable[TimedOp]) -> int:
    """The problem's objective of timed operations."""
    makespan, span = spans_ns(problem, ops)
    return makespan if problem.objective is Objective.MAKESPAN else span


def objective_ns(problem: PipelineProblem, schedule: Schedule) -> int:
    """The problem's objective of a schedule."""
    if problem.objective is Objective.MAKESPAN:
        return schedule.makespan_ns
    return schedule.steady_span_ns
