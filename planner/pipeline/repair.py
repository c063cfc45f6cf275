"""A schedule of one problem made into a schedule of another one of the same shape.

The orders are what is worth keeping. Where the new problem allows them they are only timed again;
where its memory or its offloads do not, a list scheduler follows them as far as it can.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from planner.errors import Interrupted, OrderError
from planner.pipeline.dispatch.following import follow
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.kernel.tables import (
    BACKWARD,
    DURATION,
    FORWARD,
    KINDS,
    OFFLOAD,
    RELOAD,
    WEIGHT,
    Tables,
    numbered,
    parts_of,
    tables_of,
)
from planner.pipeline.kernel.timed_arrays import IN_TURN, TimedArrays, retimed, schedule_of
from planner.pipeline.late_starts import start_late
from planner.pipeline.objective import objective_ns
from planner.pipeline.orders import Orders
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.timing import orders_of, time_orders
from planner.pipeline.verify import verify
from planner.progress import StopCheck, never

FIELDS = itemgetter(*TimedOp._fields)
Row = tuple[str, int, int, int, int]
"""The fields of a `TimedOp`."""


@dataclass(frozen=True)
class Adapted:
    """A schedule of the problem; `kept` says whether it has the orders that it was made of,
    otherwise they had to be repaired. `verify_s` is what verifying the schedule took, in seconds;
    None where it is one micro-batch at a time, which nobody verified."""

    schedule: Schedule
    kept: bool
    verify_s: float | None


def adapt(
    problem: PipelineProblem,
    document_ops: Iterable[Mapping[str, Any]],
    should_stop: StopCheck = never,
) -> Schedule:
    """The schedule of `adapted`."""
    return adapted(problem, document_ops, should_stop).schedule


def adapted(
    problem: PipelineProblem,
    document_ops: Iterable[Mapping[str, Any]],
    should_stop: StopCheck = never,
) -> Adapted:
    """A schedule of the problem that keeps the orders of the given operations.

    `document_ops` are the `ops` of a schedule document, of this problem or of one of the same
    shape (see `similarity`) with other times, sizes or limits. A schedule of this very problem
    comes back no worse. Orders that break memory or offload what cannot be offloaded are repaired:
    operations are put off, and offloads dropped or added. Told to stop before that is done, it
    answers with one micro-batch at a time.

    Raises `OrderError` if the operations are not those of a problem of this shape, or if the
    problem is infeasible (or the search for a way through its hosts' memory was given up).
    """
    tables = tables_of(problem)
    timed = _fitted(tables, [FIELDS(op) for op in document_ops])
    found = []
    for schedule in _kept(problem, tables, timed):
        found += _verified(problem, schedule, kept=True)
        if found and should_stop():
            break
    if not found:
        orders = orders_of(problem, _ops(tables, timed))
        for schedule in _repaired(problem, orders, should_stop):
            found += _verified(problem, schedule, kept=False)
    if not found:
        return Adapted(sequential_schedule(problem), kept=False, verify_s=None)
    return min(found, key=lambda own: objective_ns(problem, own.schedule))


def _verified(problem: PipelineProblem, schedule: Schedule, *, kept: bool) -> list[Adapted]:
    """The schedule, unless it breaks a rule."""
    began = time.monotonic()
    if verify(problem, schedule):
        return []
    return [Adapted(schedule, kept, time.monotonic() - began)]


def _fitted(tables: Tables, rows: Sequence[Row]) -> TimedArrays:
    """The operations that this problem has, still with their times of the other problem.

    W that the other problem lacked follows its B; O and R go where nothing can be offloaded.
    """
    kind_of = {kind: k for k, kind in enumerate(KINDS)}
    try:
        names, *columns = zip(*rows, strict=True)
        kinds = np.array([kind_of[name] for name in names], dtype=np.int64)
        stages, micro_batches, begins, ends = (np.array(c, dtype=np.int64) for c in columns)
    except (KeyError, ValueError, TypeError, OverflowError) as error:
        raise OrderError("these are no operations of a schedule") from error
    size = (tables.stages, tables.micro_batches)
    for values, end in zip((stages, micro_batches), size, strict=True):
        if values.min() < 0 or values.max() >= end:
            strange = int(np.flatnonzero((values < 0) | (values >= end))[0])
            raise OrderError(
                f"no stage {stages[strange]} or micro-batch {micro_batches[strange]} "
                "in this problem"
            )
    shape = (len(KINDS), tables.stages * tables.micro_batches)
    numbers = numbered(tables, kinds, stages, micro_batches)
    there = np.zeros(shape, dtype=np.bool_)
    times = np.zeros((2, *shape), dtype=np.int64)
    there.reshape(-1)[numbers] = True
    times.reshape(2, -1)[:, numbers] = begins, ends
    if not there[[FORWARD, BACKWARD]].all():
        s, m = divmod(int(np.flatnonzero(~there[[FORWARD, BACKWARD]].all(axis=0))[0]), size[1])
        raise OrderError(f"stage {s}, micro-batch {m} has no F or no B")
    lacks_weight = ~there[WEIGHT]
    times[:, WEIGHT, lacks_weight] = times[1, BACKWARD, lacks_weight]
    there[WEIGHT] = tables.ops[:, DURATION].reshape(shape)[WEIGHT] > 0
    there[[OFFLOAD, RELOAD]] = there[OFFLOAD] & there[RELOAD] & (tables.can_offload > 0)
    blocks = np.arange(there.size).reshape(shape)[list(IN_TURN)]
    wanted = blocks[there.reshape(-1)[blocks]]
    return TimedArrays(wanted, *times.reshape(2, -1)[:, wanted])


def _ops(tables: Tables, timed: TimedArrays) -> list[TimedOp]:
    kinds, *columns = parts_of(tables, timed.numbers)
    names = [KINDS[kind] for kind in kinds.tolist()]
    rest = (column.tolist() for column in (*columns, timed.start_ns, timed.end_ns))
    return list(map(TimedOp, names, *rest))


def _kept(problem: PipelineProblem, tables: Tables, timed: TimedArrays) -> Iterator[Schedule]:
    """The schedule as it is, where the lengths are the problem's, and timed again in all its
    orders, or in those of devices alone."""
    if (timed.end_ns - timed.start_ns == tables.ops[timed.numbers, DURATION]).all():
        yield schedule_of(tables, timed)
    for keep_transfers in (True, False):
        again = retimed(tables, timed, keep_transfers=keep_transfers)
        if again is not None:
            yield from _early_and_late(problem, schedule_of(tables, again))
            return


def _repaired(
    problem: PipelineProblem, orders: Orders, should_stop: StopCheck
) -> Iterator[Schedule]:
    """What a list scheduler makes of the orders, offloading as before or more, timed again."""
    for offload_more in (False, True) if problem.can_offload else (False,):
        try:
            dispatched = follow(problem, orders, should_stop, offload_more=offload_more)
            schedule = time_orders(problem, orders_of(problem, dispatched))
        except (OrderError, Interrupted):
            return
        yield from _early_and_late(problem, schedule)


def _early_and_late(problem: PipelineProblem, schedule: Schedule) -> Iterator[Schedule]:
    """The earliest schedule and, where only spans count, the latest as well."""
    yield schedule
    if problem.objective is Objective.STEADY_SPAN:
        yield start_late(problem, schedule)
