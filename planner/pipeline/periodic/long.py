"""Schedules of iterations with many equal micro-batches, at a cost that hardly grows with them."""

from __future__ import annotations

from collections.abc import Callable

from planner.errors import OrderError
from planner.pipeline.objective import objective_ns
from planner.pipeline.orders import Orders
from planner.pipeline.periodic.direct import DirectSearch
from planner.pipeline.periodic.extend import extended
from planner.pipeline.periodic.one_chunk import is_one_chunk_alike
from planner.pipeline.periodic.shorten import short_count, with_micro_batches
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.progress import StopCheck, never
from planner.pipeline.schedule import Schedule
from planner.pipeline.timing import time_orders

SolveShort = Callable[[PipelineProblem], Schedule | None]


def long_schedule(
    problem: PipelineProblem,
    solve_short: SolveShort,
    should_stop: StopCheck = never,
    *,
    lower_bound_ns: int = 0,
) -> Schedule | None:
    """A schedule of fill, repeated period and drain; None where micro-batches differ.

    The better of two: `direct_schedule`, and the schedule that `solve_short` makes of the problem
    with fewer micro-batches, extended. It follows every rule of the problem. None, too, where
    there are too few micro-batches to leave any out and the problem is none for
    `direct_schedule`, and where nothing was found.
    """
    if not problem.alike:
        return None
    found = [direct_schedule(problem, should_stop, lower_bound_ns=lower_bound_ns)]
    best_ns = [objective_ns(problem, schedule) for schedule in found if schedule is not None]
    if not best_ns or (min(best_ns) > lower_bound_ns and not should_stop()):
        found.append(extended_schedule(problem, solve_short, should_stop))
    schedules = [schedule for schedule in found if schedule is not None]
    return min(schedules, key=lambda s: objective_ns(problem, s), default=None)


def direct_schedule(
    problem: PipelineProblem, should_stop: StopCheck = never, *, lower_bound_ns: int = 0
) -> Schedule | None:
    """A schedule of the whole iteration by compiled list scheduling: something good at once.

    For equal micro-batches and at most one stage per device; None for other problems, and where
    nothing was found. Told to stop, it ends at the first schedule.
    """
    if not is_one_chunk_alike(problem):
        return None
    orders = DirectSearch(problem, should_stop, lower_bound_ns).run()
    return None if orders is None else _timed(problem, orders)


def extended_schedule(
    problem: PipelineProblem, solve_short: SolveShort, should_stop: StopCheck = never
) -> Schedule | None:
    """The schedule that `solve_short` makes of the problem with fewer micro-batches, extended.

    None where micro-batches differ or are too few, or where nothing was found.
    """
    count = short_count(problem) if problem.alike else None
    if count is None:
        return None
    short = solve_short(with_micro_batches(problem, count))
    if short is None or should_stop():
        return None
    sequences = extended(problem, count, short, should_stop)
    return None if sequences is None else _timed(problem, sequences.to_orders())


def _timed(problem: PipelineProblem, orders: Orders) -> Schedule | None:
    try:
        return time_orders(problem, orders)
    except OrderError:
        return None
