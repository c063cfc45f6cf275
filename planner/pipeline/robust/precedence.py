"""What waits for what when ranks follow a schedule's order instead of its clock.

The executor
    An executor takes from a schedule the sequence of its operations (by `start_ns`; where starts
    are equal, as listed) and its waits, and nothing else. Durations and latencies are whatever
    they turn out to be. Each operation starts once all of this holds:

    * Data: what rules 2 and 3 and the fixed micro-batch order of rule 1 name has ended, and the
      latency between the two stages is over.
    * Queue: the operation before it on its queue has ended. A device has a queue of its F, B and
      W, and each channel of a host link (`PipelineProblem.channel`) one of its O and R. Because
      operations whose time is 0 occupy nothing (rule 4), they do not queue with the others but
      have a second queue on each device and channel.
    * Allocations: the allocation before it in the same memory has started. Starts of F, R and of B
      allocate on a device, starts of O on a host, if they allocate at least one byte. This
      concerns scarce memories only, those that cannot hold all that an iteration allocates.
    * Waits: every operation that the schedule lists for it under `waits` has ended.

    On a GPU the queues are streams, and every line above is an event that another stream waits
    for; "has started" is an event recorded just before the operation.

Memory
    The allocations of a scarce memory start in one known sequence. So when the k-th of them has
    started, exactly k allocations have, and what is sure to be free again are the operations whose
    end precedes its start in this graph. If durations make everything else late, nothing more is
    free: the difference is the largest use that any durations can cause at that start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from planner.pipeline.effects import MemoryKey, data_dependencies, memory_effects, memory_limits
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp, Token
from planner.progress import StopCheck, never, watched

Queue = tuple[str, str, bool]
"""A device or a channel, and whether its operations take time."""


@dataclass
class FreesOfQueue:
    """What the operations of one queue free in one memory when they end."""

    positions: list[int] = field(default_factory=list)
    total_bytes: list[int] = field(default_factory=lambda: [0])

    def add(self, position: int, freed_bytes: int) -> None:
        self.positions.append(position)
        self.total_bytes.append(self.total_bytes[-1] + freed_bytes)

    def by(self, ended: int) -> int:
        """Bytes free again once the first `ended` operations of the queue have ended."""
        return self.total_bytes[bisect_right(self.positions, ended - 1)]


@dataclass
class ScarceMemory:
    """A memory that cannot hold all that an iteration allocates in it.

    `allocations` are (operation number, bytes) in the order in which they start; `frees` are kept
    per queue number.
    """

    key: MemoryKey
    limit_bytes: int
    allocations: list[tuple[int, int]] = field(default_factory=list)
    frees: dict[int, FreesOfQueue] = field(default_factory=lambda: defaultdict(FreesOfQueue))


@dataclass(frozen=True)
class PrecedenceGraph:
    """The operations of a schedule, numbered in sequence, and what each waits for.

    What operation v waits for are the entries `first[v]` to `first[v + 1]` of three arrays:
    `before` (operation number), `at_end` (whether for its end, otherwise for its start) and
    `lag_ns` (the latency after its end). `queue` and `position` place an operation in its queue.
    """

    ops: tuple[TimedOp, ...]
    number: Mapping[Token, int]
    first: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]
    at_end: npt.NDArray[np.bool_]
    lag_ns: npt.NDArray[np.float64]
    queue: npt.NDArray[np.int64]
    position: npt.NDArray[np.int64]
    queues: Sequence[Sequence[int]]
    memories: Sequence[ScarceMemory]


def precedence_graph(
    problem: PipelineProblem, schedule: Schedule, should_stop: StopCheck = never
) -> PrecedenceGraph:
    """The graph of a schedule whose operations are complete, and whose waits name only them.

    Raises `Interrupted` if told to stop.
    """
    ops = tuple(sorted(schedule.ops, key=lambda op: op.start_ns))
    tokens = [op.token for op in watched(ops, should_stop)]
    number = {token: v for v, token in enumerate(tokens)}
    waits: dict[Token, list[Token]] = defaultdict(list)
    for wait in schedule.waits or ():
        waits[wait.token] += wait.after
    memories = {
        memory.key: memory for memory in _scarce_memories(problem, watched(tokens, should_stop))
    }
    queue_numbers: dict[Queue, int] = {}
    queue_of = _Queues(problem)
    queues: list[list[int]] = []
    queue, position = [], []
    first, before, at_end, lag_ns = [0], [], [], []

    def wait_for(u: int, latency_ns: int = 0, end: bool = True) -> None:
        before.append(u)
        at_end.append(end)
        lag_ns.append(latency_ns)

    for v, token in watched(enumerate(tokens), should_stop):
        for earlier, latency_ns in data_dependencies(problem, token):
            if earlier in number:
                wait_for(number[earlier], latency_ns)
        for earlier in waits.get(token, ()):
            wait_for(number[earlier])

        own = queue_numbers.setdefault(queue_of.name(ops[v]), len(queues))
        if own == len(queues):
            queues.append([])
        elif queues[own]:
            wait_for(queues[own][-1])
        queue.append(own)
        position.append(len(queues[own]))
        queues[own].append(v)

        for key, allocated, freed in memory_effects(problem, token) if memories else ():
            memory = memories.get(key)
            if memory is None:
                continue
            if allocated:
                if memory.allocations:
                    wait_for(memory.allocations[-1][0], end=False)
                memory.allocations.append((v, allocated))
            if freed:
                memory.frees[own].add(position[v], freed)
        first.append(len(before))

    return PrecedenceGraph(
        ops=ops,
        number=number,
        first=np.array(first, dtype=np.int64),
        before=np.array(before, dtype=np.int64),
        at_end=np.array(at_end, dtype=np.bool_),
        lag_ns=np.array(lag_ns, dtype=np.float64),
        queue=np.array(queue, dtype=np.int64),
        position=np.array(position, dtype=np.int64),
        queues=queues,
        memories=list(memories.values()),
    )


def _scarce_memories(problem: PipelineProblem, tokens: Iterable[Token]) -> Iterator[ScarceMemory]:
    total: dict[MemoryKey, int] = defaultdict(int)
    for token in tokens:
        for key, allocated, _ in memory_effects(problem, token):
            total[key] += allocated
    for key, limit in memory_limits(problem).items():
        if total[key] > limit:
            yield ScarceMemory(key, limit)


class _Queues:
    """The names of queues, each made once: there are few, and very many operations."""

    def __init__(self, problem: PipelineProblem) -> None:
        self._problem = problem
        self._names: dict[tuple[str, int, bool], Queue] = {}

    def name(self, op: TimedOp) -> Queue:
        """The queue of an operation."""
        kind, s, _, start_ns, end_ns = op
        key = (kind, s, end_ns > start_ns)
        if key not in self._names:
            owner: tuple[str, str] = "device", str(self._problem.stages[s].device)
            if kind in "OR":
                owner = self._problem.channel(s, kind)
            self._names[key] = (*owner, key[2])
        return self._names[key]
