"""What the annealing proposes: moves drawn at random, each of which can be taken back.

One token a few places, the same shift of one kind's tokens over a run of micro-batches or
neighbouring stages, an offload more or less, and two micro-batches exchanged where their order is
free. About half of the single moves begin at a token of a critical path.
"""

from __future__ import annotations

from planner.compiled import inner
from planner.pipeline.kernel.simulate import NEVER
from planner.pipeline.kernel.tables import (
    CELL,
    DEVICE,
    DURATION,
    KIND,
    RELOAD,
    WEIGHT,
    Integers,
    Tables,
)
from planner.pipeline.search.evaluate import find_unchanged
from planner.pipeline.search.moves import (
    all_hold_memory,
    are_exchangeable,
    holds_memory,
    is_in_order,
    random_below,
    relocate,
    swap_micro_batches,
    toggle_offload,
)
from planner.pipeline.search.state import FAR, NEAR, Scratch, State, index_rows

PATTERN_PERCENT, TOGGLE_PERCENT, SWAP_PERCENT, CRITICAL_PERCENT = 8, 20, 10, 50
NOTHING, WINDOW, WHOLE = 0, 1, 2
"""What a proposal changed: nothing, a window of one row, or whole rows."""


@inner
def propose(
    tables: Tables, state: State, scratch: Scratch, offloads: bool, random: Integers, critical: int
) -> int:
    """Change the sequences at random; leaves what to evaluate in `scratch.first`, and what to
    restore in `scratch.saved_rows`; a window's device, ends and start (ns) in `scratch.window`."""
    draw = random_below(random, 100)
    if offloads and draw < TOGGLE_PERCENT:
        return _propose_toggle(tables, state, scratch, random)
    draw = random_below(random, 100)
    if draw < PATTERN_PERCENT and tables.micro_batches >= 4:
        return _propose_pattern(tables, state, scratch, offloads, random)
    if not tables.fixed_order and draw < PATTERN_PERCENT + SWAP_PERCENT:
        return _propose_swap(tables, state, scratch, offloads, random)
    return _propose_window(tables, state, scratch, offloads, random, critical)


@inner
def _propose_window(
    tables: Tables, state: State, scratch: Scratch, offloads: bool, random: Integers, critical: int
) -> int:
    """Move one token by a few places."""
    if critical and random_below(random, 100) < CRITICAL_PERCENT:
        token = scratch.critical[random_below(random, critical)]
        if tables.ops[token, KIND] == RELOAD and not state.offloaded[tables.ops[token, CELL]]:
            return NOTHING
        d = tables.ops[token, DEVICE]
        origin = state.place[token]
    else:
        d = random_below(random, len(tables.devices))
        if state.lengths[d] < 2:
            return NOTHING
        origin = random_below(random, state.lengths[d])
    reach = NEAR if random_below(random, 10) < 6 else FAR
    target = origin + 1 + random_below(random, reach)
    if random_below(random, 2):
        target = 2 * origin - target
    if target < 0 or target >= state.lengths[d]:
        return NOTHING
    low, high = min(origin, target), max(origin, target)
    for k in range(low, high + 1):
        scratch.saved_rows[d, k] = state.rows[d, k]
    head = state.rows[d, low]
    since = state.end_ns[head] - tables.ops[head, DURATION]
    renumber = tables.fixed_order == 1 or random_below(random, 2) == 0
    relocate(tables, state, d, origin, target, renumber, scratch.same)
    scratch.window[0], scratch.window[1], scratch.window[2] = d, low, high
    if not is_in_order(tables, state, d, low, high):
        _restore_window(state, scratch, d, low, high)
        return NOTHING
    if not offloads:
        if not holds_memory(tables, state, d, low, high):
            _restore_window(state, scratch, d, low, high)
            holds_memory(tables, state, d, low, high)
            return NOTHING
        scratch.window[3] = since
    return WINDOW


@inner
def _propose_pattern(
    tables: Tables, state: State, scratch: Scratch, offloads: bool, random: Integers
) -> int:
    """Shift the tokens of one kind by the same distance over a run of micro-batches, on a run of
    neighbouring stages, or both; those that cannot follow stay."""
    count = tables.micro_batches
    kind = random_below(random, 4 if offloads else 3)
    stage = random_below(random, tables.stages)
    last_stage = stage
    if random_below(random, 2):
        last_stage = min(tables.stages - 1, stage + random_below(random, tables.stages))
    first = random_below(random, count)
    last = first
    if last_stage == stage or random_below(random, 2):
        last = min(count - 1, first + 1 + random_below(random, count))
    distance = 1 + random_below(random, NEAR)
    if random_below(random, 2):
        distance = -distance
    _save_all(tables, state, scratch)
    since = NEVER
    moved = False
    for s in range(stage, last_stage + 1):
        for i in range(first, last + 1):
            # Later ones go first where tokens move back, so that they don't pass one another.
            m = first + last - i if distance > 0 else i
            cell = s * count + m
            token = kind * tables.stages * count + cell
            if kind == RELOAD and not state.offloaded[cell]:
                continue
            if kind == WEIGHT and tables.ops[token, DURATION] == 0:
                continue
            d = tables.ops[token, DEVICE]
            origin = state.place[token]
            target = origin + distance
            if target < 0 or target >= state.lengths[d]:
                continue
            low, high = min(origin, target), max(origin, target)
            started = NEVER
            for k in range(low, high + 1):
                other = state.rows[d, k]
                started = min(started, state.end_ns[other] - tables.ops[other, DURATION])
            relocate(tables, state, d, origin, target, True, scratch.same)
            if not is_in_order(tables, state, d, low, high):
                relocate(tables, state, d, target, origin, True, scratch.same)
                continue
            since = min(since, started)
            moved = True
    if not moved:
        return NOTHING
    if not offloads:
        if not all_hold_memory(tables, state):
            _restore_all(tables, state, scratch, offloads)
            return NOTHING
        find_unchanged(tables, state, scratch, since)
    return WHOLE


@inner
def _propose_toggle(tables: Tables, state: State, scratch: Scratch, random: Integers) -> int:
    """Offload one activation more, or one less."""
    cell = random_below(random, tables.stages * tables.micro_batches)
    if tables.can_offload[cell] == 0:
        return NOTHING
    _save_all(tables, state, scratch)
    toggle_offload(tables, state, cell, random_below(random, NEAR + 1))
    return WHOLE


@inner
def _propose_swap(
    tables: Tables, state: State, scratch: Scratch, offloads: bool, random: Integers
) -> int:
    """Exchange two micro-batches, everywhere or on a run of devices."""
    one = random_below(random, tables.micro_batches)
    other = random_below(random, tables.micro_batches)
    if one == other:
        return NOTHING
    first, last = 0, len(tables.devices) - 1
    if random_below(random, 2):
        first = random_below(random, len(tables.devices))
        last = first + random_below(random, len(tables.devices) - first)
    if not are_exchangeable(tables, one, other):
        return NOTHING
    _save_all(tables, state, scratch)
    swap_micro_batches(tables, state, one, other, first, last)
    index_rows(tables, state)
    for d in range(first, last + 1):
        if state.lengths[d] and not is_in_order(tables, state, d, 0, state.lengths[d] - 1):
            _restore_all(tables, state, scratch, offloads)
            return NOTHING
    if not offloads and not all_hold_memory(tables, state):
        _restore_all(tables, state, scratch, offloads)
        return NOTHING
    for d in range(len(tables.devices)):
        scratch.first[d] = 0
    return WHOLE


@inner
def restore(tables: Tables, state: State, scratch: Scratch, offloads: bool, changed: int) -> None:
    """Take the last proposal back."""
    if changed == WHOLE:
        _restore_all(tables, state, scratch, offloads)
        return
    d, low, high = scratch.window[0], scratch.window[1], scratch.window[2]
    _restore_window(state, scratch, d, low, high)
    if not offloads:
        holds_memory(tables, state, d, low, high)


@inner
def _restore_window(state: State, scratch: Scratch, d: int, low: int, high: int) -> None:
    for k in range(low, high + 1):
        token = scratch.saved_rows[d, k]
        state.rows[d, k] = token
        state.place[token] = k


@inner
def _save_all(tables: Tables, state: State, scratch: Scratch) -> None:
    for d in range(len(tables.devices)):
        scratch.saved_lengths[d] = state.lengths[d]
        for k in range(state.lengths[d]):
            scratch.saved_rows[d, k] = state.rows[d, k]


@inner
def _restore_all(tables: Tables, state: State, scratch: Scratch, offloads: bool) -> None:
    for d in range(len(tables.devices)):
        state.lengths[d] = scratch.saved_lengths[d]
        for k in range(state.lengths[d]):
            state.rows[d, k] = scratch.saved_rows[d, k]
    index_rows(tables, state)
    if not offloads:
        all_hold_memory(tables, state)
