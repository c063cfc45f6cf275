"""Which ends precede an operation's start, for every operation of a precedence graph at once.

A queue's operations end one after the other, so how many of each queue have surely ended before
an operation starts (a vector clock) says which. Clocks are kept only for the queues on which the
memory proof depends: those that free scarce memory for an allocation on another queue. On its own
queue an operation's place says how many ended before it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from planner.compiled import compiled
from planner.pipeline.kernel.tables import Flags, Integers
from planner.pipeline.robust.precedence import PrecedenceGraph
from planner.pipeline.robust.resources import QueueArrays, ScarceMemories

NO_CYCLE = -1

Rows = npt.NDArray[np.int32]


class Clocks:
    """One row per operation, filled in a topological order by `advance`. Queue q has the column
    `column[q]`, or -1 if no clock of it is kept."""

    def __init__(self, graph: PrecedenceGraph) -> None:
        self.graph = graph
        tracked = _queues_to_track(graph.queues, graph.memories)
        self.column = np.full(len(graph.queues.first) - 1, -1, dtype=np.int64)
        self.column[tracked] = np.arange(len(tracked))
        self.rows: Rows = np.zeros((len(graph.ops), len(tracked)), dtype=np.int32)

    def advance(self, order: Integers) -> None:
        """Fill the rows of these operations; the rows of what they wait for are filled already."""
        graph = self.graph
        first, before, at_end = graph.first, graph.before, graph.at_end
        _fill_rows(order, first, before, at_end, graph.queues, self.column, self.rows)

    def first_excess(self, memory: int) -> tuple[int, int]:
        """The first allocation of a memory that may find too little room, and how many bytes may
        then be in use; (-1, 0) if there is none."""
        graph = self.graph
        v, used = _first_excess(graph.memories, memory, graph.queues, self.column, self.rows)
        return int(v), int(used)


def topological_order(graph: PrecedenceGraph) -> tuple[Integers, int]:
    """All operations in an order in which each comes after what it waits for, and `NO_CYCLE`;
    or, where there is none, an operation that waits for itself in the end."""
    order = np.empty(len(graph.ops), dtype=np.int64)
    return order, int(_depth_first(graph.first, graph.before, order))


def _queues_to_track(queues: QueueArrays, memories: ScarceMemories) -> Integers:
    """Those that free a memory in which another queue allocates."""
    tracked = set()
    for k in range(len(memories.limit_bytes)):
        own = slice(*memories.allocation_first[k : k + 2])
        allocating = set(queues.queue[memories.allocation[own]].tolist())
        frees = memories.source_queue[slice(*memories.source_first[k : k + 2])]
        tracked |= {queue for queue in frees.tolist() if allocating != {queue}}
    return np.array(sorted(tracked), dtype=np.int64)


@compiled
def _fill_rows(
    order: Integers,
    first: Integers,
    before: Integers,
    at_end: Flags,
    queues: QueueArrays,
    column: Integers,
    rows: Rows,
) -> None:
    for v in order:
        fill_row(v, first, before, at_end, queues, column, rows)


@compiled
def fill_row(
    v: int,
    first: Integers,
    before: Integers,
    at_end: Flags,
    queues: QueueArrays,
    column: Integers,
    rows: Rows,
) -> None:
    """Fill the row of one operation by those of what it waits for."""
    for edge in range(first[v], first[v + 1]):
        wait_for(v, before[edge], at_end[edge], queues, column, rows)


@compiled
def wait_for(
    v: int, u: int, at_end: bool, queues: QueueArrays, column: Integers, rows: Rows
) -> None:
    """Take into the row of v that it waits for the start or the end of u."""
    for c in range(rows.shape[1]):
        rows[v, c] = max(rows[v, c], rows[u, c])
    own = column[queues.queue[u]]
    if at_end and own >= 0:
        rows[v, own] = max(rows[v, own], queues.position[u] + 1)


@compiled
def ended_before(v: int, queue: int, queues: QueueArrays, column: Integers, rows: Rows) -> int:
    """How many operations of the queue have surely ended before v starts."""
    if queue == queues.queue[v]:
        return int(queues.position[v])
    return int(rows[v, column[queue]])


@compiled
def freed_by(memories: ScarceMemories, source: int, ended: int) -> int:
    """Bytes free again once so many operations of a source's queue have ended."""
    first, last = memories.free_first[source], memories.free_first[source + 1]
    k = np.searchsorted(memories.free_position[first:last], ended)
    return int(memories.freed_bytes[first + k - 1]) if k > 0 else 0


@compiled
def _first_excess(
    memories: ScarceMemories, memory: int, queues: QueueArrays, column: Integers, rows: Rows
) -> tuple[int, int]:
    allocated = 0
    for k in range(memories.allocation_first[memory], memories.allocation_first[memory + 1]):
        v = memories.allocation[k]
        allocated += memories.allocated_bytes[k]
        used = allocated
        for source in range(memories.source_first[memory], memories.source_first[memory + 1]):
            queue = memories.source_queue[source]
            used -= freed_by(memories, source, ended_before(v, queue, queues, column, rows))
        if used > memories.limit_bytes[memory]:
            return v, used
    return -1, 0


@compiled
def _depth_first(first: Integers, before: Integers, order: Integers) -> int:
    """Fill `order`; -1, or an operation on a cycle."""
    count = len(order)
    next_edge = first[:-1].copy()
    opened = np.zeros(count, dtype=np.bool_)
    closed = np.zeros(count, dtype=np.bool_)
    path = np.empty(count, dtype=np.int64)
    placed = 0
    for root in range(count):
        if closed[root]:
            continue
        path[0] = root
        opened[root] = True
        depth = 0
        while depth >= 0:
            v = path[depth]
            if next_edge[v] == first[v + 1]:
                closed[v] = True
                order[placed] = v
                placed += 1
                depth -= 1
                continue
            u = before[next_edge[v]]
            next_edge[v] += 1
            if closed[u]:
                continue
            if opened[u]:
                return int(u)
            opened[u] = True
            depth += 1
            path[depth] = u
    return -1
