"""Schedules of iterations with many equal micro-batches, at a cost that hardly grows with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.errors import Interrupted, OrderError
from planner.pipeline.kernel.timed_arrays import retimed, schedule_of
from planner.pipeline.objective import objective_ns
from planner.pipeline.orders import Orders
from planner.pipeline.periodic.direct import DirectSearch
from planner.pipeline.periodic.extend import extended
from planner.pipeline.periodic.one_chunk import is_one_chunk_alike
from planner.pipeline.periodic.shorten import short_count, with_micro_batches
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.timing import time_orders
from planner.progress import StopCheck, never

SolveShort = Callable[[PipelineProblem], Schedule | None]


def long_schedules(
    problem: PipelineProblem,
    solve_short: SolveShort,
    should_stop: StopCheck = never,
    must_drop: StopCheck = never,
    *,
    lower_bound_ns: int = 0,
) -> Iterator[Schedule]:
    """Schedules of fill, repeated period and drain; none where micro-batches differ.

    Those of `direct_schedules`, and the one that `solve_short` makes of the problem with fewer
    micro-batches, extended. They follow every rule of the problem. `should_stop` ends the search,
    and what was found by then still counts unless `must_drop` says that it is no longer wanted.
    """
    if not problem.alike:
        return
    best_ns = None
    for schedule in direct_schedules(
        problem, should_stop, must_drop, lower_bound_ns=lower_bound_ns
    ):
        best_ns = objective_ns(problem, schedule)
        yield schedule
    if best_ns is None or (best_ns > lower_bound_ns and not should_stop()):
        extended = extended_schedule(problem, solve_short, should_stop, must_drop)
        if extended is not None:
            yield extended


def direct_schedules(
    problem: PipelineProblem,
    should_stop: StopCheck = never,
    must_drop: StopCheck = never,
    *,
    lower_bound_ns: int = 0,
) -> Iterator[Schedule]:
    """Schedules of the whole iteration by compiled list scheduling, each better than the one
    before: something good at once, then the best that is found.

    For equal micro-batches and at most one stage per device; none for other problems. Told to
    stop, it ends at the first one.
    """
    if not is_one_chunk_alike(problem):
        return
    search = DirectSearch(problem, should_stop, lower_bound_ns)
    for found in search.run(must_drop):
        timed = retimed(search.tables, found)
        if timed is not None:
            yield schedule_of(search.tables, timed)


def extended_schedule(
    problem: PipelineProblem,
    solve_short: SolveShort,
    should_stop: StopCheck = never,
    must_drop: StopCheck = never,
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
    try:
        sequences = extended(problem, count, short, should_stop)
    except Interrupted:
        return None
    if sequences is None or must_drop():
        return None
    return _timed(problem, sequences.to_orders(), must_drop)


def _timed(problem: PipelineProblem, orders: Orders, must_drop: StopCheck) -> Schedule | None:
    try:
        return time_orders(problem, orders, must_drop)
    except OrderError:
        return None
