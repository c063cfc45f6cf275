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
from planner.pipeline.robust.precedence import PrecedenceGraph, ScarceMemory

NO_CYCLE = -1


class Clocks:
    """One row per operation, filled in a topological order by `advance`."""

    def __init__(self, graph: PrecedenceGraph) -> None:
        self.graph = graph
        tracked = sorted(_queues_to_track(graph))
        self._column = np.full(len(graph.queues), -1, dtype=np.int64)
        self._column[tracked] = np.arange(len(tracked))
        self._column_of_op = self._column[graph.queue]
        self._rows = np.zeros((len(graph.ops), len(tracked)), dtype=np.int32)

    def advance(self, order: npt.NDArray[np.int64]) -> None:
        """Fill the rows of these operations; the rows of what they wait for are filled already."""
        graph = self.graph
        _fill_rows(
            order,
            graph.first,
            graph.before,
            graph.at_end,
            self._column_of_op,
            graph.position,
            self._rows,
        )

    def row_after_wait(self, v: int, waits_for: list[int]) -> npt.NDArray[np.int32]:
        """The row of v if it also waited for the ends of these operations."""
        row: npt.NDArray[np.int32] = self._rows[v].copy()
        for u in waits_for:
            np.maximum(row, self._rows[u], out=row)
            column = self._column_of_op[u]
            if column >= 0:
                row[column] = max(row[column], self.graph.position[u] + 1)
        return row

    def set_row(self, v: int, row: npt.NDArray[np.int32]) -> None:
        """Replace the row of v before what waits for it is filled."""
        self._rows[v] = row

    def ended(self, v: int, queue: int, row: npt.NDArray[np.int32] | None = None) -> int:
        """How many operations of the queue have ended before v starts, by this row or its own."""
        if queue == self.graph.queue[v]:
            return int(self.graph.position[v])
        return int((self._rows[v] if row is None else row)[self._column[queue]])

    def freed(self, memory: ScarceMemory, v: int, row: npt.NDArray[np.int32] | None = None) -> int:
        """Bytes of this memory that are surely free again when its allocation v starts."""
        return sum(frees.by(self.ended(v, queue, row)) for queue, frees in memory.frees.items())


def topological_order(graph: PrecedenceGraph) -> tuple[npt.NDArray[np.int64], int]:
    """All operations in an order in which each comes after what it waits for, and `NO_CYCLE`;
    or, where there is none, an operation that waits for itself in the end."""
    order = np.empty(len(graph.ops), dtype=np.int64)
    return order, int(_depth_first(graph.first, graph.before, order))


def _queues_to_track(graph: PrecedenceGraph) -> set[int]:
    tracked = set()
    for memory in graph.memories:
        allocating = {int(graph.queue[v]) for v, _ in memory.allocations}
        tracked |= {queue for queue in memory.frees if allocating != {queue}}
    return tracked


@compiled
def _fill_rows(
    order: npt.NDArray[np.int64],
    first: npt.NDArray[np.int64],
    before: npt.NDArray[np.int64],
    at_end: npt.NDArray[np.bool_],
    column: npt.NDArray[np.int64],
    position: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int32],
) -> None:
    for v in order:
        for edge in range(first[v], first[v + 1]):
            u = before[edge]
            for c in range(rows.shape[1]):
                rows[v, c] = max(rows[v, c], rows[u, c])
            if at_end[edge] and column[u] >= 0:
                rows[v, column[u]] = max(rows[v, column[u]], position[u] + 1)


@compiled
def _depth_first(
    first: npt.NDArray[np.int64], before: npt.NDArray[np.int64], order: npt.NDArray[np.int64]
) -> int:
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
