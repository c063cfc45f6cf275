"""An incumbent as the order it keeps: when its operations start, and how late they could."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from planner.pipeline.cp_sat.graph import happening_precedences
from planner.pipeline.milp.fifo import with_transfers_in_order
from planner.pipeline.milp.graph import PrecedenceGraph
from planner.pipeline.problem import MicroBatchOrder
from planner.pipeline.schedule import Schedule


@dataclass(frozen=True)
class Incumbent:
    """Starts (ns, from the first one) of the operations of a schedule, by number of the graph.

    Operations that the schedule does not have (transfers) are absent.
    """

    graph: PrecedenceGraph
    start: dict[int, int]

    @classmethod
    def of(cls, graph: PrecedenceGraph, schedule: Schedule) -> Incumbent:
        """A schedule as an incumbent; transfers that are alike in micro-batch order."""
        if graph.problem.micro_batch_order is MicroBatchOrder.FIXED:
            schedule = with_transfers_in_order(graph.problem, schedule)
        origin = min(op.start_ns for op in schedule.ops)
        return cls(graph, {graph.index[op.token]: op.start_ns - origin for op in schedule.ops})

    def end(self, i: int) -> int:
        """When an operation ends."""
        return self.start[i] + self.graph.duration[i]

    @cached_property
    def ordered(self) -> list[int]:
        """All operations in the order of their starts, ties as the precedences have them."""
        rank = {i: position for position, i in enumerate(self.graph.topological)}
        return sorted(self.start, key=lambda i: (self.start[i], rank[i]))

    @cached_property
    def computations(self) -> list[list[int]]:
        """Per device the computations that take time, in order."""
        return self._per_device(self.is_busy)

    @cached_property
    def allocations(self) -> list[list[int]]:
        """Per device what allocates memory, in order; empty for a device without limit."""
        devices = self.graph.problem.devices
        rows = self._per_device(self.allocates)
        return [
            row if devices[d].activation_memory_bytes is not None else []
            for d, row in enumerate(rows)
        ]

    def _per_device(self, belongs: Callable[[int], bool]) -> list[list[int]]:
        rows: list[list[int]] = [[] for _ in self.graph.problem.devices]
        for i in self.ordered:
            if belongs(i):
                rows[self.graph.device[i]].append(i)
        return rows

    @cached_property
    def transfers(self) -> dict[tuple[str, str], list[int]]:
        """Per channel its transfers that take time, in order."""
        rows: dict[tuple[str, str], list[int]] = defaultdict(list)
        for i in self.ordered:
            op, s, _ = self.graph.tokens[i]
            if op in "OR" and self.graph.duration[i]:
                rows[self.graph.problem.channel(s, op)].append(i)
        return rows

    @cached_property
    def arrivals(self) -> dict[int, list[int]]:
        """Per host with a limit the offloads into it, in order."""
        rows: dict[int, list[int]] = defaultdict(list)
        for i in self.ordered:
            host = self.limited_host(i)
            if self.graph.tokens[i].op == "O" and host is not None:
                rows[host].append(i)
        return rows

    def is_busy(self, i: int) -> bool:
        """Whether an operation occupies its device."""
        return self.graph.tokens[i].op in "FBW" and self.graph.duration[i] > 0

    def allocates(self, i: int) -> bool:
        """Whether an operation allocates device memory when it starts."""
        op, s, m = self.graph.tokens[i]
        if op == "B":
            return self.graph.problem.stages[s].backward_allocation_bytes(m) > 0
        return op in "FR"

    def limited_host(self, i: int) -> int | None:
        """The host of an operation's device, if it has a limit."""
        problem = self.graph.problem
        host = problem.devices[self.graph.device[i]].host
        return None if host is None or problem.hosts[host].memory_bytes is None else host

    def first_after_free(self, i: int, starting: list[int]) -> int | None:
        """The first of `starting` (in order) that starts once operation i has ended."""
        position = bisect_left(starting, self.end(i), key=self.start.__getitem__)
        return starting[position] if position < len(starting) else None

    @cached_property
    def arcs(self) -> list[tuple[int, int, int]]:
        """(a, b, lag): b starts at least lag after a does.

        All precedences of the problem and the order in which the incumbent uses devices, links
        and memory. Any times that satisfy them make a valid schedule: at every allocation the
        same allocations have begun, and at least the same frees have happened.
        """
        return list(self._list_arcs())

    def _list_arcs(self) -> Iterator[tuple[int, int, int]]:
        graph, duration = self.graph, self.graph.duration
        for a, b, lag in happening_precedences(graph, self.start.__contains__):
            yield a, b, duration[a] if graph.tokens[a].op in "OR" else lag
        for row in [*self.computations, *self.transfers.values()]:
            for a, b in itertools.pairwise(row):
                yield a, b, duration[a]
        for row in [*self.allocations, *self.arrivals.values()]:
            for a, b in itertools.pairwise(row):
                yield a, b, 0
        for i in self.start:
            op = graph.tokens[i].op
            host = self.limited_host(i)
            if op in "BWO":
                freed = self.first_after_free(i, self.allocations[graph.device[i]])
                if freed is not None and freed != i:
                    yield i, freed, duration[i]
            elif op == "R" and host is not None:
                freed = self.first_after_free(i, self.arrivals[host])
                if freed is not None:
                    yield i, freed, duration[i]

    def latest(self, end_ns: int) -> dict[int, int]:
        """How late each operation can start if all, epilogues included, ends by `end_ns` and the
        incumbent's order is kept."""
        graph = self.graph
        latest = {}
        for i in self.start:
            latest[i] = end_ns - graph.duration[i]
            if graph.tokens[i].op in "FBW":
                latest[i] -= graph.problem.devices[graph.device[i]].epilogue_ns
        before: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for a, b, lag in self.arcs:
            before[b].append((a, lag))
        # Backwards through the order one pass settles almost everything; ties may need more.
        pending = dict.fromkeys(reversed(self.ordered))
        while pending:
            b = next(iter(pending))
            del pending[b]
            for a, lag in before[b]:
                if latest[b] - lag < latest[a]:
                    latest[a] = latest[b] - lag
                    pending[a] = None
        return latest
