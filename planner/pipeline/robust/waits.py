"""The waits that make a valid timed schedule safe for any durations.

What was free when an allocation started at the schedule's own times may be waited for without
changing these times: the operation that freed it had ended by then. So each allocation, in
sequence, gets the fewest waits with which its memory is sure to suffice, given the waits before
it. Waits that orders or other waits imply are never among them: with any one of them left out the
proof of `verify_any_durations` fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from planner.compiled import compiled
from planner.pipeline.kernel.tables import Flags, Integers
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.clocks import (
    Clocks,
    Rows,
    ended_before,
    fill_row,
    freed_by,
    wait_for,
)
from planner.pipeline.robust.precedence import (
    PrecedenceGraph,
    precedence_graph,
    with_more_waits,
)
from planner.pipeline.robust.resources import QueueArrays, ScarceMemories
from planner.pipeline.robust.sequence import in_sequence
from planner.pipeline.schedule import Schedule, Wait
from planner.progress import StopCheck, check, never

OPERATIONS_BETWEEN_CHECKS = 2_000


def with_waits(
    problem: PipelineProblem, schedule: Schedule, should_stop: StopCheck = never
) -> Schedule:
    """The schedule with its operations in sequence and the waits that its allocations need.

    The schedule must pass `verify`; its times stay as they are, and ranks that follow the
    sequence and the waits are never later if everything takes its given time. Waits are in
    sequence, and so are the operations of each. Raises `Interrupted` if told to stop.
    """
    return waits_and_graph(problem, schedule, should_stop)[0]


def waits_and_graph(
    problem: PipelineProblem, schedule: Schedule, should_stop: StopCheck = never
) -> tuple[Schedule, PrecedenceGraph]:
    """The schedule of `with_waits`, and its precedence graph."""
    bare = replace(schedule, ops=in_sequence(problem, schedule.ops), waits=())
    graph = precedence_graph(problem, bare, should_stop)
    waits = tuple(_waits(graph, should_stop))
    return replace(bare, waits=waits), with_more_waits(problem, graph, waits)


def _waits(graph: PrecedenceGraph, should_stop: StopCheck) -> Iterator[Wait]:
    """One walk through the graph in sequence, adding waits where memory might not suffice."""
    clocks = Clocks(graph)
    walk = _Walk(
        first=graph.first,
        before=graph.before,
        at_end=graph.at_end,
        start_ns=graph.start_ns,
        end_ns=graph.end_ns,
        column=clocks.column,
        queues=graph.queues,
        memories=graph.memories,
        memory=_memory_of_allocations(graph),
        needed=_bytes_to_be_free(graph),
    )
    for begin in range(0, len(graph.ops), OPERATIONS_BETWEEN_CHECKS):
        check(should_stop)
        end = min(len(graph.ops), begin + OPERATIONS_BETWEEN_CHECKS)
        counts, chosen = _walk(walk, clocks.rows, begin, end)
        for v in (begin + np.flatnonzero(counts)).tolist():
            own = chosen[: counts[v - begin]]
            chosen = chosen[counts[v - begin] :]
            after = tuple(graph.ops[u].token for u in sorted(own.tolist()))
            yield Wait(graph.ops[v].token, after)


class _Walk(NamedTuple):
    """What the walk reads. `memory[v]` is the scarce memory in which v allocates, or -1, and
    `needed[v]` how many bytes of all that was ever allocated must be free again when it starts."""

    first: Integers
    before: Integers
    at_end: Flags
    start_ns: Integers
    end_ns: Integers
    column: Integers
    queues: QueueArrays
    memories: ScarceMemories
    memory: Integers
    needed: Integers


def _memory_of_allocations(graph: PrecedenceGraph) -> Integers:
    memories = graph.memories
    memory = np.full(len(graph.ops), -1, dtype=np.int64)
    counts = np.diff(memories.allocation_first)
    memory[memories.allocation] = np.repeat(np.arange(len(counts)), counts)
    return memory


def _bytes_to_be_free(graph: PrecedenceGraph) -> Integers:
    memories = graph.memories
    needed = np.zeros(len(graph.ops), dtype=np.int64)
    for k, limit in enumerate(memories.limit_bytes.tolist()):
        own = slice(*memories.allocation_first[k : k + 2].tolist())
        needed[memories.allocation[own]] = np.cumsum(memories.allocated_bytes[own]) - limit
    return needed


@compiled
def _walk(walk: _Walk, rows: Rows, begin: int, end: int) -> tuple[Integers, Integers]:
    """How many waits each operation from `begin` on gets, and all of them in their order."""
    counts = np.zeros(end - begin, dtype=np.int64)
    found = [np.int64(0) for _ in range(0)]
    # Operations are numbered in sequence, which is a topological order.
    for v in range(begin, end):
        fill_row(v, walk.first, walk.before, walk.at_end, walk.queues, walk.column, rows)
        if walk.memory[v] < 0:
            continue
        chosen = _waits_of(walk, rows, v)
        for u in chosen:
            wait_for(v, u, True, walk.queues, walk.column, rows)
            found.append(u)
        counts[v - begin] = len(chosen)
    return counts, np.array(found, dtype=np.int64)


@compiled
def _waits_of(walk: _Walk, rows: Rows, v: int) -> Integers:
    """The fewest operations after whose ends enough is free, each as early as can be; none if
    nothing would do."""
    chosen = np.empty(0, dtype=np.int64)
    if _freed(walk, rows, v, chosen) >= walk.needed[v]:
        return chosen
    first, last = _candidates(walk, rows, v)
    best = -1
    for k in range(len(first)):
        # Only what ends before the best so far can be better.
        end = last[k] if best < 0 else _ended_sooner(walk, v, k, first[k], last[k], best)
        if first[k] == end:
            continue
        alone = _op_of(walk, v, k, end - 1)
        if _freed(walk, rows, v, np.array([alone])) >= walk.needed[v]:
            best = _earliest(walk, rows, v, k, first[k], end, chosen)
    if best >= 0:
        return np.array([best])
    return _several_waits(walk, rows, v, first, last)


@compiled
def _several_waits(walk: _Walk, rows: Rows, v: int, first: Integers, last: Integers) -> Integers:
    """No queue frees enough by itself: take those that free most, then wait for as little of
    each as the others allow."""
    sources = np.empty(0, dtype=np.int64)
    waits = np.empty(0, dtype=np.int64)
    while _freed(walk, rows, v, waits) < walk.needed[v]:
        most, best = -1, -1
        for k in range(len(first)):
            if first[k] == last[k] or np.any(sources == k):
                continue
            freed = _freed(walk, rows, v, np.append(waits, _op_of(walk, v, k, last[k] - 1)))
            if best < 0 or freed > most:
                most, best = freed, k
        if best < 0:
            return np.empty(0, dtype=np.int64)
        sources = np.append(sources, best)
        waits = np.append(waits, _op_of(walk, v, best, last[best] - 1))
    for own in range(len(sources)):
        k = int(sources[own])
        waits = waits[waits != _op_of(walk, v, k, last[k] - 1)]
        if _freed(walk, rows, v, waits) < walk.needed[v]:
            waits = np.append(waits, _earliest(walk, rows, v, k, first[k], last[k], waits))
    return waits


@compiled
def _candidates(walk: _Walk, rows: Rows, v: int) -> tuple[Integers, Integers]:
    """For each queue that frees this memory, which of its frees had happened before v started, but
    not surely: from `first` up to but not including `last`."""
    memories, queues, memory = walk.memories, walk.queues, walk.memory[v]
    begin, end = memories.source_first[memory], memories.source_first[memory + 1]
    first = np.zeros(end - begin, dtype=np.int64)
    last = np.zeros(end - begin, dtype=np.int64)
    for k in range(end - begin):
        queue = memories.source_queue[begin + k]
        members = queues.members[queues.first[queue] : queues.first[queue + 1]]
        # Whatever had ended then; of what shares v's instant only what comes before v.
        ended = min(
            _ended_by(walk.end_ns, members, walk.start_ns[v]), int(np.searchsorted(members, v))
        )
        sure = ended_before(v, queue, queues, walk.column, rows)
        positions = memories.free_position[
            memories.free_first[begin + k] : memories.free_first[begin + k + 1]
        ]
        first[k] = np.searchsorted(positions, sure)
        last[k] = max(first[k], np.searchsorted(positions, ended))
    return first, last


@compiled
def _ended_by(end_ns: Integers, members: Integers, when_ns: int) -> int:
    """How many operations of a queue have ended by an instant."""
    low, high = 0, len(members)
    while low < high:
        middle = (low + high) // 2
        if end_ns[members[middle]] <= when_ns:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _ended_sooner(walk: _Walk, v: int, k: int, first: int, last: int, than: int) -> int:
    """From `first` on, up to but not including which free of a source the operations behind them
    end before another one; of equal ends the operation that comes first in sequence counts."""
    low, high = first, last
    while low < high:
        middle = (low + high) // 2
        u = _op_of(walk, v, k, middle)
        if (walk.end_ns[u], u) < (walk.end_ns[than], than):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _earliest(
    walk: _Walk, rows: Rows, v: int, k: int, first: int, last: int, others: Integers
) -> int:
    """The first operation of a source whose end, with the others', frees enough."""
    waits = np.empty(len(others) + 1, dtype=np.int64)
    waits[:-1] = others
    low, high = first, last - 1
    while low < high:
        middle = (low + high) // 2
        waits[-1] = _op_of(walk, v, k, middle)
        if _freed(walk, rows, v, waits) >= walk.needed[v]:
            high = middle
        else:
            low = middle + 1
    return _op_of(walk, v, k, low)


@compiled
def _op_of(walk: _Walk, v: int, k: int, free: int) -> int:
    """The operation behind a free of the k-th source of v's memory."""
    source = walk.memories.source_first[walk.memory[v]] + k
    position = walk.memories.free_position[walk.memories.free_first[source] + free]
    first = walk.queues.first[walk.memories.source_queue[source]]
    return int(walk.queues.members[first + position])


@compiled
def _freed(walk: _Walk, rows: Rows, v: int, waits: Integers) -> int:
    """Bytes of v's memory that are surely free again when v starts, if it also waited for these
    ends."""
    memories, queues, memory = walk.memories, walk.queues, walk.memory[v]
    freed = 0
    for source in range(memories.source_first[memory], memories.source_first[memory + 1]):
        queue = memories.source_queue[source]
        ended = ended_before(v, queue, queues, walk.column, rows)
        if queue != queues.queue[v]:
            for u in waits:
                ended = max(ended, rows[u, walk.column[queue]])
                if queues.queue[u] == queue:
                    ended = max(ended, queues.position[u] + 1)
        freed += freed_by(memories, source, ended)
    return freed
