"""A good schedule at once: the classic schedules and list heuristics, without any search of plans.

What is answered has passed verification. Nothing is random and nothing depends on the clock, so
that two problems are compared fairly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.errors import OrderError
from planner.pipeline.classic import placement as placements
from planner.pipeline.classic.limited import memory_limited_starts
from planner.pipeline.classic.rows import CHEAP_ROW, PIPE_OFFLOAD, schedules_named
from planner.pipeline.classic.shortage import shortage
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.names import FoundBy
from planner.pipeline.objective import objective_ns
from planner.pipeline.periodic.long import direct_schedules
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.timing import time_orders
from planner.pipeline.verify import verify
from planner.progress import StopCheck, never

LIMITED_POLICIES = 120
"""Policies of list scheduling within memory that are tried; each places every operation twice."""
LARGE_OPERATIONS = 10_000
"""From so many operations on only the first direct schedule and 1F1B are tried."""

Found = tuple[Schedule, str]
"""A schedule and what made it."""


@dataclass(frozen=True, slots=True)
class QuickSchedule:
    """The best verified schedule that was found, and what made it."""

    schedule: Schedule
    found_by: str


def quick_schedule(
    problem: PipelineProblem, should_stop: StopCheck = never
) -> QuickSchedule | None:
    """The best of the classic schedules in the problem's placement, of the direct schedules of
    long iterations and of list schedules within memory; one micro-batch at a time where none of
    them fits. None where nothing fits at all.

    Told to stop, it takes the best of what it has made by then.
    """
    best: Found | None = None
    for schedule, name in _tried(problem, should_stop):
        is_better = best is None or objective_ns(problem, schedule) < objective_ns(problem, best[0])
        if is_better and not verify(problem, schedule):
            best = schedule, name
        if best is not None and should_stop():
            break
    if best is None:
        try:
            best = sequential_schedule(problem), FoundBy.ONE_AT_A_TIME
        except OrderError:
            return None
    return QuickSchedule(*best)


def _tried(problem: PipelineProblem, should_stop: StopCheck) -> Iterator[Found]:
    is_large = problem.operations >= LARGE_OPERATIONS
    # Told to stop from the start, the direct search ends at its first schedule.
    hurried: StopCheck = (lambda: True) if is_large else should_stop
    for schedule in direct_schedules(problem, hurried):
        yield schedule, FoundBy.REPEATED_PERIOD
    if is_large:
        yield from _classic(problem, (CHEAP_ROW,))
        return
    yield from _classic(problem, _names(problem))
    budget = 2 * LIMITED_POLICIES * problem.operations
    for name, orders in memory_limited_starts(problem, should_stop, budget, most=1):
        yield time_orders(problem, orders), name


def _classic(problem: PipelineProblem, names: tuple[str, ...]) -> Iterator[Found]:
    """The schedules of these names that fit, the best of each name."""
    for name in names:
        fitting = [own for own in schedules_named(problem, name) if shortage(own) is None]
        if fitting:
            yield min(fitting, key=lambda own: own.objective_ns).schedule, name


def _names(problem: PipelineProblem) -> tuple[str, ...]:
    """The classic schedules that the problem's placement is made for."""
    own: tuple[str, ...] = ()
    if placements.is_one_chunk(problem):
        own = ("GPipe", CHEAP_ROW, "ZB-H1", "ZB-H2")
    elif placements.is_interleaved(problem):
        own = ("Interleaved 1F1B", "GIS", "GIS-H")
    elif placements.is_v_shape(problem):
        own = ("ZB-V", "V-Half", "V-Min")
    return (*own, PIPE_OFFLOAD) if problem.can_offload else own
