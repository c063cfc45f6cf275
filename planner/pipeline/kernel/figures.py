"""Figures of a schedule that is given as an array of starts.

`start_ns` has one entry per operation, by number or shaped (kind, stage, micro-batch); -1 where
there is none.
"""

from __future__ import annotations

import numpy as np

from planner.pipeline.kernel.tables import (
    ALLOCATED,
    ASSIGNED_HOST,
    DURATION,
    EPILOGUE,
    FREED,
    OFFLOAD,
    RELOAD,
    Integers,
    Tables,
    device_of_stage,
)


def shaped(tables: Tables, by_operation: Integers) -> Integers:
    """The same by kind, stage and micro-batch."""
    return by_operation.reshape(5, tables.stages, tables.micro_batches)


def spans_ns(tables: Tables, start_ns: Integers) -> tuple[int, int]:
    """Makespan, and steady span: the longest time from first start to last end of any device.

    Both with epilogues, and of the devices that have stages.
    """
    compute = shaped(tables, start_ns)[:RELOAD]
    ends = compute + shaped(tables, tables.ops[:, DURATION])[:RELOAD]
    there = compute >= 0
    stage_first = np.where(there, compute, np.iinfo(np.int64).max).min(axis=(0, 2))
    stage_last = np.where(there, ends, 0).max(axis=(0, 2))
    owner = device_of_stage(tables)
    used = np.unique(owner)
    first = np.array([stage_first[owner == d].min() for d in used])
    last = np.array([stage_last[owner == d].max() for d in used]) + tables.devices[used, EPILOGUE]
    return int(last.max() - first.min()), int((last - first).max())


def device_peaks_bytes(tables: Tables, start_ns: Integers) -> tuple[int, ...]:
    """The most that each device holds."""
    starts = shaped(tables, start_ns)
    duration, allocated, freed = (
        shaped(tables, tables.ops[:, column]) for column in (DURATION, ALLOCATED, FREED)
    )
    owner = device_of_stage(tables)
    peaks = []
    for d in range(len(tables.devices)):
        own = owner == d
        there = starts[:, own] >= 0
        begins = starts[:, own][there]
        ends = begins + duration[:, own][there]
        peaks.append(_peak(begins, allocated[:, own][there], ends, freed[:, own][there]))
    return tuple(peaks)


def host_peaks_bytes(tables: Tables, start_ns: Integers) -> tuple[int, ...]:
    """The most that each host holds: from the start of O to the end of R."""
    starts = shaped(tables, start_ns)
    duration, allocated, freed = (
        shaped(tables, tables.ops[:, column]) for column in (DURATION, ALLOCATED, FREED)
    )
    owner = tables.devices[device_of_stage(tables), ASSIGNED_HOST]
    peaks = []
    for h in range(len(tables.host_limit)):
        own = owner == h
        there = starts[OFFLOAD, own] >= 0
        begins = starts[OFFLOAD, own][there]
        ends = (starts[RELOAD, own] + duration[RELOAD, own])[there]
        taken, given = freed[OFFLOAD, own][there], allocated[RELOAD, own][there]
        peaks.append(_peak(begins, taken, ends, given))
    return tuple(peaks)


def _peak(begins: Integers, taken: Integers, ends: Integers, given: Integers) -> int:
    """The largest sum of what is taken at the beginnings and given back at the ends."""
    when = np.concatenate([begins, ends])
    delta = np.concatenate([taken, -given])
    matters = delta != 0
    when, delta = when[matters], delta[matters]
    # What an instant gives back comes first, so that the running sum peaks at an instant's end.
    order = np.lexsort((delta, when))
    return int(max(0, np.cumsum(delta[order]).max(initial=0)))
