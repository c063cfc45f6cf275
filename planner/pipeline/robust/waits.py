"""The waits that make a valid timed schedule safe for any durations.

What was free when an allocation started at the schedule's own times may be waited for without
changing these times: the operation that freed it had ended by then. So each allocation, in
sequence, gets the fewest waits with which its memory is sure to suffice, given the waits before
it. Waits that orders or other waits imply are never among them: with any one of them left out the
proof of `verify_any_durations` fails.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.clocks import Clocks
from planner.pipeline.robust.precedence import PrecedenceGraph, ScarceMemory, precedence_graph
from planner.pipeline.robust.sequence import in_sequence
from planner.pipeline.schedule import Schedule, Wait
from planner.progress import StopCheck, never, watched

ALLOCATIONS_BETWEEN_CHECKS = 500


def with_waits(
    problem: PipelineProblem, schedule: Schedule, should_stop: StopCheck = never
) -> Schedule:
    """The schedule with its operations in sequence and the waits that its allocations need.

    The schedule must pass `verify`; its times stay as they are, and ranks that follow the
    sequence and the waits are never later if everything takes its given time. Waits are in
    sequence, and so are the operations of each. Raises `Interrupted` if told to stop.
    """
    bare = replace(schedule, ops=in_sequence(problem, schedule.ops), waits=())
    graph = precedence_graph(problem, bare, should_stop)
    return replace(bare, waits=tuple(_Derivation(graph).run(should_stop)))


class _Derivation:
    """One walk through the graph in sequence, adding waits where memory might not suffice."""

    def __init__(self, graph: PrecedenceGraph) -> None:
        self._graph = graph
        self._clocks = Clocks(graph)
        self._ends = [[graph.ops[u].end_ns for u in queue] for queue in graph.queues]

    def run(self, should_stop: StopCheck) -> list[Wait]:
        graph, clocks = self._graph, self._clocks
        allocations = sorted(
            (v, number, k)
            for number, memory in enumerate(graph.memories)
            for k, (v, _) in enumerate(memory.allocations)
        )
        allocated = [0] * len(graph.memories)
        filled = 0
        waits = []
        for v, number, k in watched(allocations, should_stop, ALLOCATIONS_BETWEEN_CHECKS):
            memory = graph.memories[number]
            allocated[number] += memory.allocations[k][1]
            # Operations are numbered in sequence, which is a topological order.
            clocks.advance(np.arange(filled, v + 1))
            filled = v + 1
            needed = allocated[number] - memory.limit_bytes
            chosen = self._waits_of(v, memory, needed)
            if chosen:
                clocks.set_row(v, clocks.row_after_wait(v, chosen))
                after = tuple(graph.ops[u].token for u in sorted(chosen))
                waits.append(Wait(graph.ops[v].token, after))
        return waits

    def _waits_of(self, v: int, memory: ScarceMemory, needed: int) -> list[int]:
        """The fewest operations after whose ends at least `needed` bytes of all that was ever
        allocated are free, each as early as can be; none if nothing would do."""
        if self._clocks.freed(memory, v) >= needed:
            return []
        candidates = self._candidates(v, memory)
        alone = [own for own in candidates if self._freed(memory, v, [own[-1]]) >= needed]
        if alone:
            earliest = [self._earliest(v, memory, needed, own, []) for own in alone]
            return [min(earliest, key=lambda u: (self._graph.ops[u].end_ns, u))]
        return self._several_waits(v, memory, needed, candidates)

    def _several_waits(
        self, v: int, memory: ScarceMemory, needed: int, candidates: list[list[int]]
    ) -> list[int]:
        """No queue frees enough by itself: take those that free most, then wait for as little of
        each as the others allow."""
        chosen: list[list[int]] = []
        while self._freed(memory, v, [own[-1] for own in chosen]) < needed:
            others = [own for own in candidates if own not in chosen]
            if not others:
                return []
            last = [own[-1] for own in chosen]
            chosen.append(max(others, key=lambda own: self._freed(memory, v, [*last, own[-1]])))
        waits = [own[-1] for own in chosen]
        for own in chosen:
            others_only = [u for u in waits if u != own[-1]]
            waits = others_only
            if self._freed(memory, v, others_only) < needed:
                waits = [*others_only, self._earliest(v, memory, needed, own, others_only)]
        return waits

    def _candidates(self, v: int, memory: ScarceMemory) -> list[list[int]]:
        """Per queue the operations that freed this memory before v started, but not surely."""
        graph = self._graph
        candidates = []
        for queue, frees in memory.frees.items():
            members = graph.queues[queue]
            # Whatever had ended then; of what shares v's instant only what comes before v.
            ended = min(
                bisect_right(self._ends[queue], graph.ops[v].start_ns), bisect_left(members, v)
            )
            sure = self._clocks.ended(v, queue)
            first, last = (bisect_left(frees.positions, bound) for bound in (sure, ended))
            if first < last:
                candidates.append([members[p] for p in frees.positions[first:last]])
        return candidates

    def _earliest(
        self, v: int, memory: ScarceMemory, needed: int, own: list[int], others: list[int]
    ) -> int:
        """The first operation of a queue whose end, with the others', frees enough."""
        k = bisect_left(
            range(len(own) - 1),
            True,
            key=lambda i: self._freed(memory, v, [*others, own[i]]) >= needed,
        )
        return own[k]

    def _freed(self, memory: ScarceMemory, v: int, waits: list[int]) -> int:
        row: npt.NDArray[np.int32] = self._clocks.row_after_wait(v, waits)
        return self._clocks.freed(memory, v, row)
