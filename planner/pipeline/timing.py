"""From orders to exact times: the earliest schedule that follows given orders of operations.

The orders say in what sequence each device starts its operations and, if wanted, in what sequence
each host link and host takes its transfers. Every operation then starts as soon as what it waits
for has ended, which makes its start the longest path to it; waiting for memory depends on when
other operations end, so the path is followed by simulating the iteration event by event.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from planner.pipeline.memory import device_memory_events, host_memory_events, peak_bytes
from planner.pipeline.objective import spans_ns
from planner.pipeline.orders import Channel, Orders, check_complete, orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.simulation import Simulation
from planner.progress import StopCheck, check, never

__all__ = ["Channel", "Orders", "orders_of", "schedule_from_ops", "time_orders"]

COMPILED_FROM_TOKENS = 5_000
BY_START = itemgetter(3, 4, 1, 2)
"""By start, end, stage and micro-batch; a key made of `TimedOp`'s positions takes half the time."""


def time_orders(
    problem: PipelineProblem,
    orders: Orders,
    should_stop: StopCheck = never,
    *,
    enforce_memory: bool = True,
) -> Schedule:
    """The earliest schedule in which everything starts in the given orders.

    An allocation (start of F, R, and of B where it allocates) waits until it fits; allocations of
    one device keep their order. With `enforce_memory=False` device and host limits are ignored.
    Raises `OrderError` if an operation is missing or doubled, or if the orders deadlock, and
    `Interrupted` if told to stop.
    """
    check(should_stop)
    check_complete(problem, orders)
    check(should_stop)
    if sum(map(len, orders.compute)) >= COMPILED_FROM_TOKENS:
        # Only here, so that who times nothing long loads no compiler.
        from planner.pipeline.kernel.timed_arrays import timed_schedule

        schedule = timed_schedule(problem, orders, enforce_memory)
        check(should_stop)
        if schedule is not None:
            return schedule
    return schedule_from_ops(problem, Simulation(problem, orders, enforce_memory).run())


def schedule_from_ops(problem: PipelineProblem, ops: Iterable[TimedOp]) -> Schedule:
    """A schedule with the figures that follow from its timed operations."""
    timed = tuple(sorted(ops, key=BY_START))
    makespan, steady_span = spans_ns(problem, timed)
    return Schedule(
        ops=timed,
        makespan_ns=makespan,
        steady_span_ns=steady_span,
        peak_memory_bytes=tuple(
            peak_bytes(events)[0] for events in device_memory_events(problem, timed)
        ),
        host_peak_memory_bytes=tuple(
            peak_bytes(events)[0] for events in host_memory_events(problem, timed)
        ),
    )
