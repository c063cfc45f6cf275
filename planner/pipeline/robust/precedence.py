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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from planner.pipeline.effects import MemoryKey
from planner.pipeline.kernel.tables import (
    BACKWARD,
    FORWARD,
    LAG,
    OFFLOAD,
    PREDECESSOR,
    RELOAD,
    WEIGHT,
    Flags,
    Integers,
    Tables,
    operation_numbers,
    tables_of,
    timed_columns,
)
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.groups import NOWHERE, bounds_of, one_before, sorted_by_group
from planner.pipeline.robust.resources import MemoryUses, QueueArrays, ScarceMemories, queues_of
from planner.pipeline.schedule import Schedule, TimedOp, Wait
from planner.progress import StopCheck, check, never


@dataclass(frozen=True)
class PrecedenceGraph:
    """The operations of a schedule, numbered in sequence, and what each waits for.

    What operation v waits for are the entries `first[v]` to `first[v + 1]` of three arrays:
    `before` (operation number), `at_end` (whether for its end, otherwise for its start) and
    `lag_ns` (the latency after its end). `numbers` are the operations as `kernel.tables` has them,
    and `memory_keys` says which memories the scarce ones are.
    """

    ops: tuple[TimedOp, ...]
    numbers: Integers
    start_ns: Integers
    end_ns: Integers
    first: Integers
    before: Integers
    at_end: Flags
    lag_ns: npt.NDArray[np.float64]
    queues: QueueArrays
    memories: ScarceMemories
    memory_keys: Sequence[MemoryKey]


def precedence_graph(
    problem: PipelineProblem, schedule: Schedule, should_stop: StopCheck = never
) -> PrecedenceGraph:
    """The graph of a schedule whose operations are complete, and whose waits name only them.

    Raises `Interrupted` if told to stop.
    """
    check(should_stop)
    tables = tables_of(problem)
    ops = tuple(sorted(schedule.ops, key=attrgetter("start_ns")))
    numbers, start_ns, end_ns = timed_columns(tables, ops)
    place = _places(tables, numbers)
    check(should_stop)
    queues = queues_of(tables, numbers, end_ns > start_ns)
    check(should_stop)
    uses = MemoryUses(tables, numbers)
    edges = _Edges(len(ops))
    _add_data(edges, tables, numbers, place)
    _add_waits(edges, tables, schedule.waits or (), place)
    edges.add(queues.members, one_before(queues.members, queues.first))
    allocation_first, allocation = uses.allocations()
    edges.add(allocation, one_before(allocation, allocation_first), at_end=False)
    check(should_stop)
    first, before, at_end, lag_ns = edges.sorted()
    return PrecedenceGraph(
        ops=ops,
        numbers=numbers,
        start_ns=start_ns,
        end_ns=end_ns,
        first=first,
        before=before,
        at_end=at_end,
        lag_ns=lag_ns,
        queues=queues,
        memories=uses.scarce(queues),
        memory_keys=uses.keys,
    )


def with_more_waits(
    problem: PipelineProblem, graph: PrecedenceGraph, waits: Sequence[Wait]
) -> PrecedenceGraph:
    """The graph of the same operations with these waits beside those that it has."""
    tables = tables_of(problem)
    after = np.repeat(np.arange(len(graph.ops)), np.diff(graph.first))
    edges = _Edges(len(graph.ops))
    edges.take(after, graph.before, graph.at_end, graph.lag_ns)
    _add_waits(edges, tables, waits, _places(tables, graph.numbers))
    first, before, at_end, lag_ns = edges.sorted()
    return replace(graph, first=first, before=before, at_end=at_end, lag_ns=lag_ns)


def without_allocations(graph: PrecedenceGraph) -> PrecedenceGraph:
    """The same where no allocation waits for another one to start: memory counts for nothing."""
    kept = np.concatenate([[0], np.cumsum(graph.at_end)])
    at_end = graph.at_end
    return replace(
        graph,
        first=kept[graph.first],
        before=graph.before[at_end],
        at_end=at_end[at_end],
        lag_ns=graph.lag_ns[at_end],
    )


def _places(tables: Tables, numbers: Integers) -> Integers:
    """Where in the sequence each of the problem's operations is."""
    place = np.full(len(tables.ops), NOWHERE, dtype=np.int64)
    place[numbers] = np.arange(len(numbers))
    return place


class _Edges:
    """What operations wait for, in the order in which it was added."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._parts: list[tuple[Integers, Integers, Flags, npt.NDArray[np.float64]]] = []

    def add(
        self,
        after: Integers,
        before: Integers,
        lag_ns: Integers | None = None,
        *,
        at_end: bool = True,
    ) -> None:
        """Each operation of `after` waits for the one of `before` at its place, if there is one."""
        there = before != NOWHERE
        lags = np.zeros(len(before)) if lag_ns is None else lag_ns.astype(np.float64)
        ends = np.full(np.count_nonzero(there), at_end)
        self.take(after[there], before[there], ends, lags[there])

    def take(
        self, after: Integers, before: Integers, at_end: Flags, lag_ns: npt.NDArray[np.float64]
    ) -> None:
        """Each operation of `after` waits for the one of `before` at its place."""
        self._parts.append((after, before, at_end, lag_ns))

    def sorted(self) -> tuple[Integers, Integers, Flags, npt.NDArray[np.float64]]:
        """The graph's `first`, `before`, `at_end` and `lag_ns`."""
        after, before, at_end, lag_ns = (
            np.concatenate(columns) for columns in zip(*self._parts, strict=True)
        )
        first = bounds_of(after, self._count)
        order = sorted_by_group(after, first)
        return first, before[order], at_end[order], lag_ns[order]


def _add_data(edges: _Edges, tables: Tables, numbers: Integers, place: Integers) -> None:
    """Rules 2 and 3, and the fixed micro-batch order."""
    block = tables.stages * tables.micro_batches
    kinds, cells = np.divmod(numbers, block)

    def wait(of: Flags, earlier: Integers, lag_ns: Integers | None = None) -> None:
        edges.add(np.flatnonzero(of), place[earlier[of]], None if lag_ns is None else lag_ns[of])

    neighbour = tables.ops[numbers, PREDECESSOR]
    wait((kinds <= BACKWARD) & (neighbour >= 0), neighbour, tables.ops[numbers, LAG])
    for kind, before in (
        (BACKWARD, FORWARD),
        (BACKWARD, RELOAD),
        (WEIGHT, BACKWARD),
        (OFFLOAD, FORWARD),
        (RELOAD, OFFLOAD),
    ):
        wait(kinds == kind, before * block + cells)
    if tables.fixed_order:
        wait((kinds <= WEIGHT) & (cells % tables.micro_batches > 0), numbers - 1)


def _add_waits(edges: _Edges, tables: Tables, waits: Sequence[Wait], place: Integers) -> None:
    waiting = operation_numbers(tables, (wait.token for wait in waits))
    earlier = operation_numbers(tables, chain.from_iterable(wait.after for wait in waits))
    counts = np.array([len(wait.after) for wait in waits], dtype=np.int64)
    edges.add(np.repeat(place[waiting], counts), place[earlier])
