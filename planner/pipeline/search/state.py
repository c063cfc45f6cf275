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
    `trial_ns[op]` to those being tried;
    `tail_ns[op]` is about how long the iteration goes on after an operation of the former."""

    rows: Integers
    lengths: Integers
    place: Integers
    offloaded: Integers
    held: Integers
    end_ns: Integers
    trial_ns: Integers
    tail_ns: Integers


class Scratch(NamedTuple):
    """Work space of the moves and evaluations."""

    saved_rows: Integers
    saved_lengths: Integers
    window: Integers
    first: Integers
    timing: Integers
    late_start_ns: Integers
    new_ends: Integers
    old_tails: Integers
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
        tail_ns=np.zeros(operations, dtype=np.int64),
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
        late_start_ns=np.zeros_like(state.end_ns),
        new_ends=np.zeros(LONGEST_WINDOW, dtype=np.int64),
        old_tails=np.zeros(LONGEST_WINDOW, dtype=np.int64),
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
