"""Timed operations as arrays, and schedules that keep their orders: for very many operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from planner.pipeline.kernel.event_simulation import simulate_events, simulated
from planner.pipeline.kernel.figures import device_peaks_bytes, host_peaks_bytes, spans_ns
from planner.pipeline.kernel.orders import OrderArrays
from planner.pipeline.kernel.tables import (
    ASSIGNED_HOST,
    BACKWARD,
    CHANNEL,
    DEVICE,
    DURATION,
    FORWARD,
    OFFLOAD,
    RELOAD,
    WEIGHT,
    Flags,
    Integers,
    Tables,
    ops_at,
    parts_of,
    tables_of,
)
from planner.pipeline.orders import Orders
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule

IN_TURN = (FORWARD, BACKWARD, WEIGHT, OFFLOAD, RELOAD)
RANK = np.empty(5, dtype=np.int64)
RANK[[FORWARD, OFFLOAD, RELOAD, BACKWARD, WEIGHT]] = range(5)
"""Of the operations of a stage and micro-batch at one instant, as `orders_of` has them."""


class TimedArrays(NamedTuple):
    """Operations by their numbers (see `tables`), with their starts and ends (ns)."""

    numbers: Integers
    start_ns: Integers
    end_ns: Integers


def timed_at(tables: Tables, starts: Integers) -> TimedArrays:
    """What starts when, given by kind (the first three or all), stage and micro-batch; -1 where
    there is nothing. An O comes before its R."""
    flat = starts.reshape(-1)
    blocks = np.arange(len(flat)).reshape(len(starts), -1)
    numbers = blocks[[kind for kind in IN_TURN if kind < len(starts)]].reshape(-1)
    numbers = numbers[flat[numbers] >= 0]
    return _with_ends(tables, numbers, flat[numbers])


def starts_of(tables: Tables, timed: TimedArrays) -> Integers:
    """The starts by kind, stage and micro-batch; -1 where there is nothing."""
    starts = np.full(len(tables.ops), -1, dtype=np.int64)
    starts[timed.numbers] = timed.start_ns
    return starts.reshape(5, tables.stages, tables.micro_batches)


def timed_schedule(
    problem: PipelineProblem, orders: Orders, enforce_memory: bool
) -> Schedule | None:
    """What `time_orders` answers for complete orders; None where it raises."""
    tables = tables_of(problem)
    found = simulated(tables, orders, enforce_memory)
    if found is None:
        return None
    numbers, start_ns = found
    return schedule_of(tables, _with_ends(tables, numbers, start_ns))


def _with_ends(tables: Tables, numbers: Integers, start_ns: Integers) -> TimedArrays:
    return TimedArrays(numbers, start_ns, start_ns + tables.ops[numbers, DURATION])


def schedule_of(tables: Tables, timed: TimedArrays) -> Schedule:
    """The schedule of operations whose lengths are the problem's: what
    `timing.schedule_from_ops` makes of them."""
    _, stages, micro_batches = parts_of(tables, timed.numbers)
    order = np.lexsort((micro_batches, stages, timed.end_ns, timed.start_ns))
    numbers, start_ns = timed.numbers[order], timed.start_ns[order]
    starts = starts_of(tables, timed)
    makespan_ns, steady_span_ns = spans_ns(tables, starts)
    return Schedule(
        ops=tuple(ops_at(tables, numbers, start_ns)),
        makespan_ns=makespan_ns,
        steady_span_ns=steady_span_ns,
        peak_memory_bytes=device_peaks_bytes(tables, starts),
        host_peak_memory_bytes=host_peaks_bytes(tables, starts),
    )


def retimed(
    tables: Tables, timed: TimedArrays, *, keep_transfers: bool = True
) -> TimedArrays | None:
    """The earliest times in the orders that these operations start in: those of
    `time_orders(problem, orders_of(problem, ops))`, or without its channel and host orders.

    The operations have to be complete. None where the orders deadlock.
    """
    order = _in_order(tables, timed)
    numbers = timed.numbers[order]
    kinds = numbers // (tables.stages * tables.micro_batches)
    compute = numbers[kinds != OFFLOAD]
    owner = tables.ops[compute, DEVICE]
    counts = np.bincount(owner, minlength=len(tables.devices))
    sequences = OrderArrays(
        compute[np.argsort(owner, kind="stable")], np.concatenate([[0], np.cumsum(counts)])
    )
    positions: Iterable[Integers] = ()
    if keep_transfers:
        transfers, offloads = numbers[kinds >= RELOAD], numbers[kinds == OFFLOAD]
        host = tables.devices[tables.ops[offloads, DEVICE], ASSIGNED_HOST]
        positions = (
            _positions(tables, transfers, tables.ops[transfers, CHANNEL]),
            _positions(tables, offloads[host >= 0], host[host >= 0]),
        )
    found, start_ns, complete = simulate_events(tables, sequences, *positions)
    return _with_ends(tables, found, start_ns) if complete else None


def _in_order(tables: Tables, timed: TimedArrays) -> Integers:
    """By start and end; operations of no length follow their dependencies, one micro-batch after
    the other: forwards down the stages, backwards up."""
    kinds, stages, micro_batches = parts_of(tables, timed.numbers)
    goes_down: Flags = (kinds == FORWARD) | (kinds == OFFLOAD)
    depth = np.where(goes_down, stages, tables.stages - stages)
    order: Integers = np.lexsort((depth, RANK[kinds], micro_batches, timed.end_ns, timed.start_ns))
    return order


def _positions(tables: Tables, numbers: Integers, owner: Integers) -> Integers:
    """Per operation its place among those of its owner; -1 of others."""
    positions = np.full(len(tables.ops), -1, dtype=np.int64)
    grouped = np.argsort(owner, kind="stable")
    first = np.searchsorted(owner[grouped], owner[grouped])
    positions[numbers[grouped]] = np.arange(len(numbers)) - first
    return positions
