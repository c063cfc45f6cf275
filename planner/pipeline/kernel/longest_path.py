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
    KIND,
    LAG,
    PREDECESSOR,
    RELOAD,
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
    due_ns: Integers,
    late_start_ns: Integers,
    work: Integers,
) -> None:
    """Latest starts of F, B and W with which every device ends by `due_ns[d]`: longest paths
    backwards over sequences and data dependencies. Reloads, memory and links are left out."""
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
        while k >= 0:
            token = rows[d, k]
            after = ops[token, SUCCESSOR]
            if after >= 0 and late_start_ns[after] < 0:
                work[d, BLOCKED] = 1
                break
            if ops[token, KIND] != RELOAD:
                latest = latest_end(tables, rows, lengths, due_ns, late_start_ns, d, k)
                late_start_ns[token] = latest - ops[token, DURATION]
            k -= 1
            before = ops[token, PREDECESSOR]
            if before >= 0:
                other = ops[before, DEVICE]
                if work[other, BLOCKED] and rows[other, work[other, POSITION]] == before:
                    work[other, BLOCKED] = 0
                    work[top, STACK] = other
                    top += 1
        work[d, POSITION] = k


@inner
def latest_end(
    tables: Tables,
    rows: Integers,
    lengths: Integers,
    due_ns: Integers,
    late_start_ns: Integers,
    d: int,
    k: int,
) -> int:
    """When the device's k-th token must have ended, from the latest starts of what follows it."""
    ops = tables.ops
    following = k + 1
    while following < lengths[d] and ops[rows[d, following], KIND] == RELOAD:
        following += 1
    latest: int = due_ns[d]
    if following < lengths[d]:
        latest = late_start_ns[rows[d, following]]
    after = ops[rows[d, k], SUCCESSOR]
    if after >= 0:
        latest = min(latest, late_start_ns[after] - ops[after, LAG])
    return latest
