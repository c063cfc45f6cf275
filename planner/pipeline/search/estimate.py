"""A quick estimate of what a move does, to turn down the hopeless without timing everything.

After Taillard, "Parallel Taboo Search Techniques for the Job Shop Scheduling Problem" (1994): only
the moved window is timed, between the accepted times before it and the accepted tails after it. A
tail is the longest path from an operation's end to the end of the iteration, over the sequences
and the data dependencies; memory and links are left out, so the estimate is rarely too long.
"""

from __future__ import annotations

from planner.compiled import inner
from planner.pipeline.kernel.longest_path import BLOCKED, POSITION, STACK
from planner.pipeline.kernel.tables import (
    BACKWARD,
    CELL,
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
from planner.pipeline.search.state import Scratch, State


@inner
def find_tails(tables: Tables, state: State, work: Integers) -> None:
    """Fill `state.tail_ns` of F, B and W for the accepted sequences."""
    ops = tables.ops
    rows, lengths, tails = state.rows, state.lengths, state.tail_ns
    devices = len(lengths)
    for d in range(devices):
        work[d, POSITION] = lengths[d] - 1
        work[d, BLOCKED] = 0
        work[d, STACK] = d
        for k in range(lengths[d]):
            tails[rows[d, k]] = -1
    top = devices
    while top:
        top -= 1
        d = work[top, STACK]
        k = work[d, POSITION]
        while k >= 0:
            token = rows[d, k]
            if ops[token, KIND] == RELOAD:
                k -= 1
                continue
            after = ops[token, SUCCESSOR]
            if after >= 0 and tails[after] < 0:
                work[d, BLOCKED] = 1
                break
            tails[token] = _tail(tables, state, d, k)
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
def _tail(tables: Tables, state: State, d: int, k: int) -> int:
    """The tail of the device's k-th token, from those of what follows it."""
    ops = tables.ops
    following = k + 1
    while following < state.lengths[d] and ops[state.rows[d, following], KIND] == RELOAD:
        following += 1
    if following < state.lengths[d]:
        token = state.rows[d, following]
        tail: int = ops[token, DURATION] + state.tail_ns[token]
    else:
        tail = tables.devices[d, EPILOGUE]
    after = ops[state.rows[d, k], SUCCESSOR]
    if after >= 0:
        tail = max(tail, ops[after, LAG] + ops[after, DURATION] + state.tail_ns[after])
    return tail


@inner
def estimate(tables: Tables, state: State, scratch: Scratch, d: int, low: int, high: int) -> int:
    """About how long the iteration gets with the device's tokens from `low` to `high` as they now
    are: the longest path through one of them."""
    ops = tables.ops
    rows = state.rows
    size = tables.stages * tables.micro_batches
    free = 0
    k = low - 1
    while k >= 0 and ops[rows[d, k], KIND] == RELOAD:
        k -= 1
    if k >= 0:
        free = state.end_ns[rows[d, k]]
    for k in range(low, high + 1):
        token = rows[d, k]
        scratch.old_tails[k - low] = state.tail_ns[token]
        if ops[token, KIND] == RELOAD:
            continue
        before = ops[token, PREDECESSOR]
        if before >= 0:
            free = max(free, state.end_ns[before] + ops[token, LAG])
        if ops[token, KIND] == BACKWARD and state.offloaded[ops[token, CELL]]:
            free = max(free, state.end_ns[token + (RELOAD - BACKWARD) * size])
        free += ops[token, DURATION]
        scratch.new_ends[k - low] = free
    longest = 0
    for k in range(high, low - 1, -1):
        token = rows[d, k]
        if ops[token, KIND] == RELOAD:
            continue
        state.tail_ns[token] = _tail(tables, state, d, k)
        longest = max(longest, scratch.new_ends[k - low] + state.tail_ns[token])
    for k in range(low, high + 1):
        state.tail_ns[rows[d, k]] = scratch.old_tails[k - low]
    return longest
