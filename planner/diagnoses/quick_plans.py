"""Plans that are there at once: orders timed again, repaired, or dispatched by AdaOffload.

`ends` is a time of `time.thread_time`, so that what others do on the machine does not count.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from planner.errors import Interrupted, OrderError
from planner.pipeline.adaoffload import AdaOffloadSettings, adaoffload
from planner.pipeline.dispatch.following import follow
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.orders import Orders, orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.timing import time_orders


@dataclass(frozen=True)
class Timed:
    """A schedule, how it came to be, and whether it keeps to the limits of memory."""

    schedule: Schedule
    basis: str
    fits: bool = True


def timed_orders(problem: PipelineProblem, orders: Orders, basis: str) -> Timed | None:
    """In all orders or, where links are not what they were, in those of devices alone; where memory
    does not allow them, without its limits. None where they deadlock even so."""
    for enforce in (True, False):
        for kept in (orders, Orders(orders.compute)):
            with suppress(OrderError):
                schedule = time_orders(problem, kept, enforce_memory=enforce)
                return Timed(schedule, basis if enforce else f"{basis}, limits ignored", enforce)
    return None


def same_shape(one: PipelineProblem, other: PipelineProblem) -> bool:
    """Whether they have the same operations on the same devices."""
    return one.micro_batches == other.micro_batches and [s.device for s in one.stages] == [
        s.device for s in other.stages
    ]


def carried_over(problem: PipelineProblem, orders: Orders, ends: float) -> list[Schedule]:
    """Plans that keep to the orders as far as the problem's limits allow."""
    timed = timed_orders(problem, orders, "")
    if timed is not None and timed.fits:
        return [timed.schedule]
    found = []
    for offload_more in (False, True) if problem.can_offload else (False,):
        with suppress(OrderError, Interrupted):
            ops = follow(
                problem, orders, lambda: time.thread_time() >= ends, offload_more=offload_more
            )
            found.append(time_orders(problem, orders_of(problem, ops)))
    return found


def dispatched(
    problem: PipelineProblem, settings: AdaOffloadSettings | None, bound_ns: int, ends: float
) -> list[Schedule]:
    """What AdaOffload finds; nothing where nothing fits, or where time was up before it had any
    answer of its own. `bound_ns` is a proven bound of the objective, with which it ends."""
    stopped = False

    def is_over() -> bool:
        nonlocal stopped
        stopped = stopped or time.thread_time() >= ends
        return stopped

    with suppress(OrderError):
        found = adaoffload(problem, settings, is_over, lower_bound_ns=bound_ns)
        if not stopped or found.ops != sequential_schedule(problem).ops:
            return [found]
    return []
