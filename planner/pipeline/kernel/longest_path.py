"""Timing of token sequences that offload nothing: a longest path, without a simulation.

A device computes one operation after the other, so what it holds when an operation starts
depends on its sequence alone, and the earliest times are longest paths over at most two
predecessors: the operation before on the device and the one on the neighbouring stage.
"""

from __future__ import annotations

from planner.compiled import inner
from planner.pipeline.kernel.tables import (
    DEVICE,
    DURATION,
    EPILOGUE,
    LAG,
    PREDECESSOR,
    SUCCESSOR,
    Integers,
    Tables,
)

DEADLOCK = -1
TOO_LATE = -2

POSITION, REMAINING, STACK, BLOCKED = range(4)
"""Columns of the work space, one row per device."""


@inner
def time_from(
    tables: Tables,
    rows: Integers,
    lengths: Integers,
    end_ns: Integers,
    cutoff_ns: int,
    work: Integers,
) -> int:
    """Earliest ends of the tokens from `work[d, POSITION]` on; those before keep theirs.

    Returns the largest end with epilogue of all devices; `DEADLOCK` if the sequences wait for
    each other, `TOO_LATE` as soon as it is sure to exceed `cutoff_ns`.
    """
    ops = tables.ops
    devices = len(lengths)
    left = 0
    for d in range(devices):
        total = tables.devices[d, EPILOGUE]
        for k in range(work[d, POSITION], lengths[d]):
            token = rows[d, k]
            end_ns[token] = -1
            total += ops[token, DURATION]
            left += 1
        work[d, REMAINING] = total
        work[d, BLOCKED] = 0
        work[d, STACK] = devices - 1 - d
    latest = 0
    top = devices
    while top:
        top -= 1
        d = work[top, STACK]
        k = work[d, POSITION]
        length = lengths[d]
        rest = work[d, REMAINING]
        free = end_ns[rows[d, k - 1]] if k else 0
        while k < length:
            token = rows[d, k]
            before = ops[token, PREDECESSOR]
            if before >= 0:
                ready = end_ns[before]
                if ready < 0:
                    work[d, BLOCKED] = 1
                    break
                free = max(free, ready + ops[token, LAG])
            if free + rest > cutoff_ns:
                return TOO_LATE
            duration = ops[token, DURATION]
            free += duration
            rest -= duration
            end_ns[token] = free
            left -= 1
            k += 1
            after = ops[token, SUCCESSOR]
            if after >= 0:
                other = ops[after, DEVICE]
                if work[other, BLOCKED] and rows[other, work[other, POSITION]] == after:
                    work[other, BLOCKED] = 0
                    work[top, STACK] = other
                    top += 1
        work[d, POSITION] = k
        work[d, REMAINING] = rest
        if k == length and length:
            latest = max(latest, free + tables.devices[d, EPILOGUE])
    return latest if left == 0 else DEADLOCK


@inner
def latest_starts(
    tables: Tables,
    rows: Integers,
    lengths: Integers,
    end_ns: Integers,
    late_start_ns: Integers,
    work: Integers,
) -> None:
    """Latest starts that keep every device's last end: longest paths from the ends backwards."""
    ops = tables.ops
    devices = len(lengths)
    for d in range(devices):
        work[d, POSITION] = lengths[d] - 1
        work[d, BLOCKED] = 0
        work[d, STACK] = d
        for k in range(lengths[d]):
            late_start_ns[rows[d, k]] = -1
    top = devices
    while top:
        top -= 1
        d = work[top, STACK]
        k = work[d, POSITION]
        if k < 0:
            continue
        is_last = k == lengths[d] - 1
        due = end_ns[rows[d, k]] if is_last else late_start_ns[rows[d, k + 1]]
        while k >= 0:
            token = rows[d, k]
            after = ops[token, SUCCESSOR]
            if after >= 0:
                limit = late_start_ns[after]
                if limit < 0:
                    work[d, BLOCKED] = 1
                    break
                due = min(due, limit - ops[after, LAG])
            due -= ops[token, DURATION]
            late_start_ns[token] = due
            k -= 1
            before = ops[token, PREDECESSOR]
            if before >= 0:
                other = ops[before, DEVICE]
                if work[other, BLOCKED] and rows[other, work[other, POSITION]] == before:
                    work[other, BLOCKED] = 0
                    work[top, STACK] = other
                    top += 1
        work[d, POSITION] = k
