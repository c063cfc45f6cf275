"""The state of a local search: per-device token sequences and what follows from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.compiled import inner
from planner.pipeline.kernel.simulate import Workspace, workspace_for
from planner.pipeline.kernel.tables import CELL, KIND, RELOAD, Integers, Tables

NEAR, FAR = 4, 12
"""Places that a token moves at most; the nearer distance is drawn more often."""
LONGEST_WINDOW = FAR + 1


class State(NamedTuple):
    """`rows[d, k]` is the device's k-th token, `lengths[d]` their number, `place[op]` the k of an
    operation, `offloaded[cell]` whether there is an R. `held[d, k]` are the bytes in use before
    the k-th token where nothing is offloaded; `end_ns[op]` belongs to the accepted sequences and
    `trial_ns[op]` to those being tried. `late_start_ns[op]` is how late an operation of the former
    may start to end by a far horizon."""

    rows: Integers
    lengths: Integers
    place: Integers
    offloaded: Integers
    held: Integers
    end_ns: Integers
    trial_ns: Integers
    late_start_ns: Integers


class Scratch(NamedTuple):
    """Work space of the moves and evaluations.

    `saved_rows` and `saved_lengths` are from before a proposal, `window` the device, the first and
    the last place that it changed and the start (ns) of what stood first, `first[d]` the device's
    first token that has to be timed anew.
    """

    saved_rows: Integers
    saved_lengths: Integers
    window: Integers
    first: Integers
    timing: Integers
    due_ns: Integers
    span_due_ns: Integers
    span_starts_ns: Integers
    new_ends: Integers
    kept_ns: Integers
    same: Integers
    critical: Integers
    simulation: Workspace


def state_of(tables: Tables, rows: Integers, lengths: Integers) -> State:
    """A state with these sequences; its times are not computed yet."""
    operations = len(tables.ops)
    cells = tables.stages * tables.micro_batches
    state = State(
        rows=rows.copy(),
        lengths=lengths.copy(),
        place=np.zeros(operations, dtype=np.int64),
        offloaded=np.zeros(cells, dtype=np.int64),
        held=np.zeros_like(rows),
        end_ns=np.full(operations, -1, dtype=np.int64),
        trial_ns=np.full(operations, -1, dtype=np.int64),
        late_start_ns=np.zeros(operations, dtype=np.int64),
    )
    index_rows(tables, state)
    return state


def scratch_for(tables: Tables, state: State) -> Scratch:
    """Work space for a state."""
    devices = len(tables.devices)
    return Scratch(
        saved_rows=np.zeros_like(state.rows),
        saved_lengths=np.zeros(devices, dtype=np.int64),
        window=np.zeros(4, dtype=np.int64),
        first=np.zeros(devices, dtype=np.int64),
        timing=np.zeros((devices, 4), dtype=np.int64),
        due_ns=np.zeros(devices, dtype=np.int64),
        span_due_ns=np.zeros(devices, dtype=np.int64),
        span_starts_ns=np.zeros_like(state.end_ns),
        new_ends=np.zeros(LONGEST_WINDOW, dtype=np.int64),
        kept_ns=np.zeros(LONGEST_WINDOW, dtype=np.int64),
        same=np.zeros(state.rows.shape[1], dtype=np.int64),
        critical=np.zeros(len(state.end_ns), dtype=np.int64),
        simulation=workspace_for(tables),
    )


@inner
def index_rows(tables: Tables, state: State) -> None:
    """Fill `place` and `offloaded` from the rows."""
    for cell in range(len(state.offloaded)):
        state.offloaded[cell] = 0
    for d in range(len(tables.devices)):
        for k in range(state.lengths[d]):
            token = state.rows[d, k]
            state.place[token] = k
            if tables.ops[token, KIND] == RELOAD:
                state.offloaded[tables.ops[token, CELL]] = 1


@inner
def copy_sequences(source: State, target: State) -> None:
    """Copy rows, lengths and times."""
    for d in range(len(source.lengths)):
        target.lengths[d] = source.lengths[d]
        for k in range(source.lengths[d]):
            target.rows[d, k] = source.rows[d, k]
    for operation in range(len(source.end_ns)):
        target.end_ns[operation] = source.end_ns[operation]
