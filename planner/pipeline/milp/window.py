"""Windows over an incumbent: order decisions only between operations of a few micro-batches.

Every other pair keeps the incumbent's order. It is written into the precedence graph as chains,
so that the model grows with the window and only linearly with the iteration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from planner.pipeline.milp.fifo import with_transfers_in_order
from planner.pipeline.milp.graph import PrecedenceGraph
from planner.pipeline.milp.start import Instants, instants_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule


class Window:
    """The micro-batches `first` <= m < `end`, free to be reordered among themselves."""

    def __init__(self, incumbent: Schedule, first: int, end: int) -> None:
        self.incumbent = incumbent
        self.first = first
        self.end = end

    def __contains__(self, micro_batch: int) -> bool:
        return self.first <= micro_batch < self.end

    def settled_offloads(self, problem: PipelineProblem) -> dict[tuple[int, int], bool]:
        """The incumbent's offload decisions outside the window."""
        offloaded = {(op.stage, op.micro_batch) for op in self.incumbent.ops if op.op == "O"}
        return {
            (s, m): (s, m) in offloaded
            for s, stage in enumerate(problem.stages)
            for m in range(problem.micro_batches)
            if stage.offload_bytes[m] and m not in self
        }

    def add_order(self, graph: PrecedenceGraph) -> Callable[[int, int], bool]:
        """Add the incumbent's order to the graph; says which pairs may still change."""
        free = graph.is_free = [token.micro_batch in self for token in graph.tokens]
        incumbent = with_transfers_in_order(graph.problem, self.incumbent)
        _OrderWriter(graph, instants_of(graph, incumbent), free).write()
        return lambda a, b: free[a] and free[b]


class _OrderWriter:
    """Writes an incumbent's order as edges, all but that of pairs of which both are free."""

    def __init__(self, graph: PrecedenceGraph, at: Instants, free: list[bool]) -> None:
        self.graph = graph
        self.at = at
        self.free = free

    def write(self) -> None:
        graph = self.graph
        channels: dict[tuple[str, str], list[int]] = defaultdict(list)
        offloads: dict[int, list[int]] = defaultdict(list)
        for i, token in enumerate(graph.tokens):
            if token.op in "OR" and self._happens(i):
                channels[graph.problem.channel(token.stage, token.op)].append(i)
            host = graph.problem.devices[graph.device[i]].host
            if token.op == "O" and host is not None:
                offloads[host].append(i)
        for transfers in channels.values():
            self._chain([i for i in transfers if graph.duration[i]], graph.add_sequence)
        for group in offloads.values():
            self._chain(group, graph.add_start_order)
            reloads = [i + 1 for i in group]
            self._after_ends(reloads, group)
        for d, compute in enumerate(graph.compute_of_device):
            transfers = graph.transfers_of_device[d]
            reloads = [i for i in transfers if graph.tokens[i].op == "R"]
            sends = [i for i in transfers if graph.tokens[i].op == "O" and self._happens(i)]
            allocations = [i for i in compute if graph.tokens[i].op in "FB"] + reloads
            self._chain([i for i in compute if graph.duration[i]], graph.add_sequence)
            self._chain(allocations, graph.add_start_order)
            self._after_ends(compute, reloads)
            self._after_ends(sends, allocations)

    def _happens(self, i: int) -> bool:
        return self.graph.tokens[i][1:] in self.at.offloaded

    def _sorted(self, among: Iterable[int]) -> list[int]:
        return sorted(among, key=lambda i: (self.at.start[i], self.at.rank[i]))

    def _chain(self, among: list[int], add: Callable[[int, int], None]) -> None:
        """Each after the last bound one before it; a bound one also after the free between."""
        bound: int | None = None
        since: list[int] = []
        for i in self._sorted(among):
            if bound is not None:
                add(bound, i)
            if self.free[i]:
                since.append(i)
                continue
            for earlier in since:
                add(earlier, i)
            bound, since = i, []

    def _after_ends(self, among: list[int], starting: list[int]) -> None:
        """Each of `starting` after the latest of `among` that has ended by then."""
        by_end = sorted(among, key=lambda i: (self.at.end[i], self.at.rank[i]))
        for b in starting:
            ended = [i for i in by_end if self.at.end[i] <= self.at.start[b] and i != b]
            for a in reversed(ended):
                if self.free[a] and self.free[b]:
                    continue
                if self.graph.tokens[a][1:] != self.graph.tokens[b][1:]:
                    self.graph.add_sequence(a, b)
                if not self.free[a]:
                    break
