"""A quick estimate of what a move does, to turn down the hopeless without timing everything.

After Taillard, "Parallel Taboo Search Techniques for the Job Shop Scheduling Problem" (1994): only
the moved window is timed, between the accepted ends before it and the latest starts after it, with
which everything would end by a far horizon. What an operation's latest end leaves until there is
its tail, the longest path from it to the end of the iteration. Memory and links are left out, so
the estimate is rarely too long.
"""

from __future__ import annotations

from planner.compiled import inner
from planner.pipeline.kernel.longest_path import latest_end, latest_starts
from planner.pipeline.kernel.tables import (
    BACKWARD,
    CELL,
    DURATION,
    EPILOGUE,
    KIND,
    LAG,
    PREDECESSOR,
    RELOAD,
    Tables,
)
from planner.pipeline.search.state import Scratch, State

HORIZON_NS = 2**60


@inner
def find_tails(tables: Tables, state: State, scratch: Scratch) -> None:
    """Fill `state.late_start_ns` for the accepted sequences and the far horizon."""
    for d in range(len(tables.devices)):
        scratch.due_ns[d] = HORIZON_NS - tables.devices[d, EPILOGUE]
    latest_starts(
        tables, state.rows, state.lengths, scratch.due_ns, state.late_start_ns, scratch.timing
    )


@inner
def estimate(tables: Tables, state: State, scratch: Scratch, d: int, low: int, high: int) -> int:
    """About how long the iteration gets with the device's tokens from `low` to `high` as they now
    are: the longest path through one of them."""
    ops = tables.ops
    rows, lengths = state.rows, state.lengths
    size = tables.stages * tables.micro_batches
    free = 0
    k = low - 1
    while k >= 0 and ops[rows[d, k], KIND] == RELOAD:
        k -= 1
    if k >= 0:
        free = state.end_ns[rows[d, k]]
    for k in range(low, high + 1):
        token = rows[d, k]
        scratch.kept_ns[k - low] = state.late_start_ns[token]
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
        latest = latest_end(tables, rows, lengths, scratch.due_ns, state.late_start_ns, d, k)
        state.late_start_ns[token] = latest - ops[token, DURATION]
        longest = max(longest, scratch.new_ends[k - low] + HORIZON_NS - latest)
    for k in range(low, high + 1):
        state.late_start_ns[rows[d, k]] = scratch.kept_ns[k - low]
    return longest
