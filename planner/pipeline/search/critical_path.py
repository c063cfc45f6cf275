"""The critical path of the accepted sequences, where a move has most to gain."""

from __future__ import annotations

from planner.compiled import inner
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
    Tables,
)
from planner.pipeline.search.state import Scratch, State


@inner
def find_critical(tables: Tables, state: State, scratch: Scratch) -> int:
    """Fill `scratch.critical` with the tokens of a longest path to the last end; their number.

    Where nothing that ends when a token starts explains its start (memory, a link), the path
    goes on with the token before it on the device.
    """
    latest, token = -1, -1
    for d in range(len(tables.devices)):
        if state.lengths[d]:
            last = state.rows[d, state.lengths[d] - 1]
            if state.end_ns[last] + tables.devices[d, EPILOGUE] > latest:
                latest, token = state.end_ns[last] + tables.devices[d, EPILOGUE], last
    found = 0
    while token >= 0 and found < len(scratch.critical):
        scratch.critical[found] = token
        found += 1
        start = state.end_ns[token] - tables.ops[token, DURATION]
        before = tables.ops[token, PREDECESSOR]
        k = state.place[token]
        if before >= 0 and state.end_ns[before] + tables.ops[token, LAG] == start:
            token = before
        elif tables.ops[token, KIND] == BACKWARD and state.offloaded[tables.ops[token, CELL]]:
            reload = tables.ops[token, CELL] + RELOAD * tables.stages * tables.micro_batches
            if state.end_ns[reload] == start or k == 0:
                token = reload
            else:
                token = state.rows[tables.ops[token, DEVICE], k - 1]
        elif k:
            token = state.rows[tables.ops[token, DEVICE], k - 1]
        else:
            token = -1
    return found
