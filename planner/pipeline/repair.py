"""A schedule of one problem made into a schedule of another one of the same shape.

The orders are what is worth keeping. Where the new problem allows them they are only timed again;
where its memory or its offloads do not, a list scheduler follows them as far as it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from planner.errors import Interrupted, OrderError
from planner.pipeline.dispatch.following import follow
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.late_starts import start_late
from planner.pipeline.objective import objective_ns
from planner.pipeline.orders import Orders
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp, Token
from planner.pipeline.timing import orders_of, schedule_from_ops, time_orders
from planner.pipeline.verify import verify
from planner.progress import StopCheck, never


def adapt(
    problem: PipelineProblem,
    document_ops: Iterable[Mapping[str, Any]],
    should_stop: StopCheck = never,
) -> Schedule:
    """A verified schedule of the problem that keeps the orders of the given operations.

    `document_ops` are the `ops` of a schedule document, of this problem or of one of the same
    shape (see `similarity`) with other times, sizes or limits. A schedule of this very problem
    comes back no worse. Orders that break memory or offload what cannot be offloaded are repaired:
    operations are put off, and offloads dropped or added. Told to stop before that is done, it
    answers with one micro-batch at a time.

    Raises `OrderError` if the operations are not those of a problem of this shape, or if the
    problem is infeasible (or the search for a way through its hosts' memory was given up).
    """
    ops = _fitted(problem, [TimedOp(**op) for op in document_ops])
    found = []
    for schedule in _kept(problem, ops):
        if not verify(problem, schedule):
            found.append(schedule)
            if should_stop():
                break
    if not found:
        orders = orders_of(problem, ops)
        found = [s for s in _repaired(problem, orders, should_stop) if not verify(problem, s)]
    if not found:
        return sequential_schedule(problem)
    return min(found, key=lambda schedule: objective_ns(problem, schedule))


def _fitted(problem: PipelineProblem, ops: list[TimedOp]) -> list[TimedOp]:
    """The operations that this problem has, still with their times of the other problem.

    W that the other problem lacked follows its B; O and R go where nothing can be offloaded.
    """
    count = problem.micro_batches
    known: dict[Token, TimedOp] = {}
    for op in ops:
        if not (0 <= op.stage < len(problem.stages) and 0 <= op.micro_batch < count):
            raise OrderError(f"no stage {op.stage} or micro-batch {op.micro_batch} in this problem")
        known[op.token] = op
    fitted = []
    for s, stage in enumerate(problem.stages):
        for m in range(count):
            forward, backward = (known.get(Token(kind, s, m)) for kind in ("F", "B"))
            if forward is None or backward is None:
                raise OrderError(f"stage {s}, micro-batch {m} has no F or no B")
            fitted += [forward, backward]
            if stage.has_weight_op(m):
                at_once = TimedOp("W", s, m, backward.end_ns, backward.end_ns)
                fitted.append(known.get(Token("W", s, m), at_once))
            offload, reload = (known.get(Token(kind, s, m)) for kind in ("O", "R"))
            if stage.offload_bytes[m] and offload is not None and reload is not None:
                fitted += [offload, reload]
    return fitted


def _kept(problem: PipelineProblem, ops: list[TimedOp]) -> Iterator[Schedule]:
    """The schedule as it is, and timed again in all its orders, or in those of devices alone."""
    yield schedule_from_ops(problem, ops)
    orders = orders_of(problem, ops)
    for kept in (orders, Orders(orders.compute)):
        try:
            yield from _timed(problem, kept)
            return
        except OrderError:
            continue


def _repaired(
    problem: PipelineProblem, orders: Orders, should_stop: StopCheck
) -> Iterator[Schedule]:
    """What a list scheduler makes of the orders, offloading as before or more, timed again."""
    for offload_more in (False, True) if problem.can_offload else (False,):
        try:
            dispatched = follow(problem, orders, should_stop, offload_more=offload_more)
            yield from _timed(problem, orders_of(problem, dispatched))
        except (OrderError, Interrupted):
            return


def _timed(problem: PipelineProblem, orders: Orders) -> Iterator[Schedule]:
    """The earliest schedule with these orders and, where only spans count, the latest as well."""
    schedule = time_orders(problem, orders)
    yield schedule
    if problem.objective is Objective.STEADY_SPAN:
        yield start_late(problem, schedule)
