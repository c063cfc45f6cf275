"""Moves of the local search: changes of token sequences that keep each device's own order.

A device's tokens of one stage and micro-batch stay in the order F, R, B, W, and under fixed
micro-batch order those of one kind and stage stay in micro-batch order: a token that passes
others of its kind takes over their numbers.
"""

from __future__ import annotations

from planner.compiled import inner
from planner.pipeline.kernel.tables import (
    ALLOCATED,
    BACKWARD,
    CELL,
    DEVICE,
    DURATION,
    FORWARD,
    FREED,
    KIND,
    LIMIT,
    RELOAD,
    STAGE,
    WEIGHT,
    Integers,
    Tables,
)
from planner.pipeline.search.state import State


@inner
def random_below(random: Integers, limit: int) -> int:
    """A whole number from 0 to limit - 1, for limits up to 2^31.

    The upper bits of Knuth's linear congruential generator modulo 2^64 (MMIX, "The Art of
    Computer Programming", volume 2, section 3.3.4); `random[0]` is its state.
    """
    state: int = random[0] * 6364136223846793005 + 1442695040888963407
    random[0] = state
    return ((state >> 33) & 0x7FFFFFFF) % limit


@inner
def relocate(
    tables: Tables,
    state: State,
    d: int,
    origin: int,
    target: int,
    renumber: bool,
    same: Integers,
) -> None:
    """Move the device's token at `origin` to `target`; `same` is work space."""
    rows = state.rows
    token = rows[d, origin]
    low, high = min(origin, target), max(origin, target)
    stage, kind = tables.ops[token, STAGE], tables.ops[token, KIND]
    alike = 0
    if renumber:
        for k in range(low, high + 1):
            other = rows[d, k]
            if tables.ops[other, KIND] == kind and tables.ops[other, STAGE] == stage:
                same[alike] = other
                alike += 1
    if origin < target:
        for k in range(origin, target):
            rows[d, k] = rows[d, k + 1]
    else:
        for k in range(origin, target, -1):
            rows[d, k] = rows[d, k - 1]
    rows[d, target] = token
    if alike > 1:
        given = 0
        for k in range(low, high + 1):
            other = rows[d, k]
            if tables.ops[other, KIND] == kind and tables.ops[other, STAGE] == stage:
                rows[d, k] = same[given]
                given += 1
    for k in range(low, high + 1):
        state.place[rows[d, k]] = k


@inner
def is_in_order(tables: Tables, state: State, d: int, low: int, high: int) -> bool:
    """Whether the tokens from `low` to `high` come after and before those they must."""
    size = tables.stages * tables.micro_batches
    for k in range(low, high + 1):
        token = state.rows[d, k]
        kind = tables.ops[token, KIND]
        cell = tables.ops[token, CELL]
        if kind == FORWARD:
            if k > state.place[cell + BACKWARD * size]:
                return False
            if state.offloaded[cell] and k > state.place[cell + RELOAD * size]:
                return False
        elif kind == BACKWARD:
            if k < state.place[cell]:
                return False
            if state.offloaded[cell] and k < state.place[cell + RELOAD * size]:
                return False
            if tables.ops[cell + WEIGHT * size, DURATION] and k > state.place[cell + WEIGHT * size]:
                return False
        elif kind == WEIGHT:
            if k < state.place[cell + BACKWARD * size]:
                return False
        elif k < state.place[cell] or k > state.place[cell + BACKWARD * size]:
            return False
    return True


@inner
def holds_memory(tables: Tables, state: State, d: int, low: int, high: int) -> bool:
    """Recompute `held` from `low` to `high` where nothing is offloaded; False if it exceeds the
    limit. Beyond `high` nothing changes, since the same tokens have ended by then."""
    limit = tables.devices[d, LIMIT]
    used = 0
    if low:
        before = state.rows[d, low - 1]
        used = state.held[d, low - 1] + tables.ops[before, ALLOCATED] - tables.ops[before, FREED]
    for k in range(low, high + 1):
        token = state.rows[d, k]
        state.held[d, k] = used
        if tables.ops[token, ALLOCATED] and used + tables.ops[token, ALLOCATED] > limit:
            return False
        used += tables.ops[token, ALLOCATED] - tables.ops[token, FREED]
    return True


@inner
def all_hold_memory(tables: Tables, state: State) -> bool:
    """Recompute `held` of all devices; False as soon as one exceeds its limit."""
    for d in range(len(tables.devices)):
        if state.lengths[d] and not holds_memory(tables, state, d, 0, state.lengths[d] - 1):
            return False
    return True


@inner
def toggle_offload(tables: Tables, state: State, cell: int, lead: int) -> int:
    """Take the R of a cell out, or put one in up to `lead` tokens before its B; the first place
    that changed. The device's row shifts."""
    size = tables.stages * tables.micro_batches
    reload = cell + RELOAD * size
    d = tables.ops[reload, DEVICE]
    rows = state.rows
    if state.offloaded[cell]:
        k: int = state.place[reload]
        for position in range(k, state.lengths[d] - 1):
            rows[d, position] = rows[d, position + 1]
            state.place[rows[d, position]] = position
        state.lengths[d] -= 1
        state.offloaded[cell] = 0
        return k
    k = max(state.place[cell] + 1, state.place[cell + BACKWARD * size] - lead)
    for position in range(state.lengths[d], k, -1):
        rows[d, position] = rows[d, position - 1]
        state.place[rows[d, position]] = position
    rows[d, k] = reload
    state.place[reload] = k
    state.lengths[d] += 1
    state.offloaded[cell] = 1
    return k


@inner
def are_exchangeable(tables: Tables, one: int, other: int) -> bool:
    """Whether two micro-batches have the same operations: W on the same stages, and on the same
    stages something to offload."""
    count = tables.micro_batches
    for stage in range(tables.stages):
        mine, theirs = stage * count + one, stage * count + other
        if (tables.can_offload[mine] > 0) != (tables.can_offload[theirs] > 0):
            return False
        weights = WEIGHT * tables.stages * count
        my_weight = tables.ops[weights + mine, DURATION]
        their_weight = tables.ops[weights + theirs, DURATION]
        if (my_weight > 0) != (their_weight > 0):
            return False
    return True


@inner
def swap_micro_batches(
    tables: Tables, state: State, one: int, other: int, first_device: int, last_device: int
) -> None:
    """Let two micro-batches change places in all sequences of some devices."""
    count = tables.micro_batches
    for d in range(first_device, last_device + 1):
        for k in range(state.lengths[d]):
            token = state.rows[d, k]
            micro_batch = tables.ops[token, CELL] % count
            if micro_batch == one:
                token += other - one
            elif micro_batch == other:
                token += one - other
            else:
                continue
            state.rows[d, k] = token
            state.place[token] = k
