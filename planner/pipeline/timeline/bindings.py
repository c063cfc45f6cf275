"""What each operation of a timed schedule waits for: why it starts when it does, not earlier.

An operation is *bound* at its start by what is over just then: the operation before it on its
device or channel, one that it depends on (and the transfer from there), or one that frees memory
without which it would not have fitted. Where several hold, the first in that sequence counts.
Where none does, it may have had its turn only when another operation started that is served
before it (an allocation of the same device, a transfer of the same channel or host): it then waits
for what that one waits for. What is not bound at all could start earlier in the same order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from planner.pipeline.effects import MemoryKey, data_dependencies, memory_effects
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import COMPUTE_KINDS, TimedOp, Wait
from planner.pipeline.timeline.memory_use import MemoryUse

WaitsFor = Literal["device", "dependency", "memory", "link", "start", "slack"]
"""`device`: its turn on the device; `dependency`: an operation before it and the transfer from
there; `memory` of a device or a host; `link`: its turn on the host link, or a transfer that it
needs; `start`: nothing, it is the first; `slack`: nothing that was found."""

Served = tuple[str, int | tuple[str, str]]
"""Who serves operations one after the other: a device, a channel of a link, or a host."""


@dataclass(frozen=True)
class Bindings:
    """Per operation, by number: the operation whose end let it start, and what it waited for."""

    after: tuple[int | None, ...]
    waits_for: tuple[WaitsFor, ...]


@dataclass(frozen=True)
class _Bound:
    """The operation that ended and why it mattered. Through a transfer to or from the host, the
    reason is what that transfer waited for itself."""

    after: int
    reason: WaitsFor
    through: int | None = None


def bindings(
    problem: PipelineProblem,
    ops: Sequence[TimedOp],
    waits: Sequence[Wait],
    memories: dict[MemoryKey, MemoryUse],
    from_ns: int,
    *,
    whole_backward: bool = False,
) -> Bindings:
    """What binds each operation; `ops` are sorted by start, and the first starts at `from_ns`.

    With `whole_backward` B and W are one operation, which sends the gradient when W is done.
    """
    return _Binder(problem, ops, waits, memories, from_ns, whole_backward).run()


class _Binder:
    def __init__(
        self,
        problem: PipelineProblem,
        ops: Sequence[TimedOp],
        waits: Sequence[Wait],
        memories: dict[MemoryKey, MemoryUse],
        from_ns: int,
        whole_backward: bool,
    ) -> None:
        self._problem = problem
        self._ops = ops
        self._from_ns = from_ns
        self._whole_backward = whole_backward
        self._number: dict[tuple[str, int, int], int] = {op[:3]: i for i, op in enumerate(ops)}
        self._memories = {key: use for key, use in memories.items() if use.keeps_limit}
        self._waits: dict[tuple[str, int, int], Wait] = {wait.token: wait for wait in waits}
        self._before = list(self._before_on_queue())
        self._frees = self._frees_by_instant()
        self._bound: list[_Bound | None] = [self._bind(i) for i in range(len(ops))]

    def run(self) -> Bindings:
        self._follow_those_served_before()
        after = tuple(None if bound is None else bound.after for bound in self._bound)
        return Bindings(after, tuple(self._reason(i) for i in range(len(self._ops))))

    def _before_on_queue(self) -> Iterator[int | None]:
        """The operation before each on its device or channel; those of no length do not queue."""
        last: dict[Served, int] = {}
        for i, op in enumerate(self._ops):
            if op.end_ns == op.start_ns:
                yield None
                continue
            queue = self._queue(op)
            yield last.get(queue)
            last[queue] = i

    def _queue(self, op: TimedOp) -> Served:
        if op.op in COMPUTE_KINDS:
            return "device", self._problem.stages[op.stage].device
        return "channel", self._problem.channel(op.stage, op.op)

    def _frees_by_instant(self) -> dict[tuple[MemoryKey, int], list[int]]:
        """Who frees memory at an instant; those that last come first."""
        frees: dict[tuple[MemoryKey, int], list[int]] = defaultdict(list)
        if not self._memories:
            return frees
        for i, op in enumerate(self._ops):
            for key, _, freed in memory_effects(self._problem, op.token):
                if freed and key in self._memories:
                    frees[key, op.end_ns].append(i)
        return frees

    def _bind(self, i: int) -> _Bound | None:
        kind = self._ops[i].op
        turn, dependency = self._by_turn(i), self._by_dependency(i)
        if kind in COMPUTE_KINDS:
            return turn or dependency or self._by_memory(i)
        if kind == "O":
            return dependency or turn or self._by_memory(i)
        return turn or self._by_memory(i) or dependency

    def _by_turn(self, i: int) -> _Bound | None:
        before = self._before[i]
        if before is None or self._ops[before].end_ns != self._ops[i].start_ns:
            return None
        return _Bound(before, "device" if self._ops[i].op in COMPUTE_KINDS else "link")

    def _by_dependency(self, i: int) -> _Bound | None:
        op = self._ops[i]
        transferred = None
        for earlier, lag_ns in data_dependencies(self._problem, op.token):
            if self._whole_backward and earlier.op == "B" and earlier.stage > op.stage:
                weight = earlier._replace(op="W")
                earlier = weight if weight in self._number else earlier
            j = self._number.get(earlier)
            if j is None or self._ops[j].end_ns + lag_ns != op.start_ns:
                continue
            if earlier.op not in "OR":
                return _Bound(j, "dependency")
            transferred = _Bound(j, "link", through=j)
        return transferred

    def _by_memory(self, i: int) -> _Bound | None:
        """Memory without which it would not have fitted just before its start, or an end that the
        schedule tells it to wait for lest memory should not suffice."""
        op = self._ops[i]
        for key, allocated, _ in memory_effects(self._problem, op.token):
            use = self._memories.get(key)
            if use is None or not allocated or use.limit_bytes is None:
                continue
            if use.before_ns(op.start_ns) + allocated > use.limit_bytes:
                freed = [j for j in self._frees[key, op.start_ns] if j != i]
                if freed:
                    return _Bound(min(freed, key=lambda j: self._ops[j].start_ns), "memory")
        wait = self._waits.get(op[:3])
        for earlier in wait.after if wait is not None else ():
            j = self._number[earlier]
            if self._ops[j].end_ns == op.start_ns:
                return _Bound(j, "memory")
        return None

    def _follow_those_served_before(self) -> None:
        """Let what is not bound share the binding of an operation that is served by the same
        device, channel or host and starts at the same instant."""
        left = [
            i
            for i, op in enumerate(self._ops)
            if self._bound[i] is None and op.start_ns > self._from_ns
        ]
        instants = {self._ops[i].start_ns for i in left}
        together: dict[tuple[int, Served], list[int]] = defaultdict(list)
        for i, op in enumerate(self._ops):
            if op.start_ns in instants:
                for server in self._servers(op):
                    together[op.start_ns, server].append(i)
        while left:
            found = {i: bound for i in left if (bound := self._binding_of_others(i, together))}
            if not found:
                return
            for i, bound in found.items():
                self._bound[i] = bound
            left = [i for i in left if i not in found]

    def _servers(self, op: TimedOp) -> Iterator[Served]:
        device = self._problem.stages[op.stage].device
        if op.op != "O":
            yield "device", device
        if op.op in "OR":
            yield "channel", self._problem.channel(op.stage, op.op)
        host = self._problem.devices[device].host
        if op.op == "O" and host is not None:
            yield "host", host

    def _binding_of_others(
        self, i: int, together: dict[tuple[int, Served], list[int]]
    ) -> _Bound | None:
        op = self._ops[i]
        for server in self._servers(op):
            for j in together[op.start_ns, server]:
                bound = self._bound[j]
                # An operation of no length that waits for this one tells nothing about it.
                if bound is not None and bound.after != i:
                    return bound
        return None

    def _reason(self, i: int) -> WaitsFor:
        bound = self._bound[i]
        if bound is None:
            return "start" if self._ops[i].start_ns == self._from_ns else "slack"
        if bound.through is None:
            return bound.reason
        transfer = self._reason(bound.through)
        if transfer == "memory":
            return "memory"
        return "slack" if transfer == "slack" and self._came_late(i, bound.through) else "link"

    def _came_late(self, i: int, transfer: int) -> bool:
        """Whether the transfer began only after the device, or the channel, had become free."""
        before = self._before[i]
        free_ns = self._from_ns if before is None else self._ops[before].end_ns
        return self._ops[transfer].start_ns > free_ns
