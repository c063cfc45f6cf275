"""Memory in use over time, per device and per host, of a timed schedule (rules 5 and 6)."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp

MemoryEvent = tuple[int, int]
"""When (ns) and by how many bytes the use changes."""


def device_memory_events(
    problem: PipelineProblem, ops: Iterable[TimedOp]
) -> list[list[MemoryEvent]]:
    """Allocations and frees of each device, in no particular order."""
    events: list[list[MemoryEvent]] = [[] for _ in problem.devices]
    count = range(problem.micro_batches)
    own = [events[stage.device] for stage in problem.stages]
    activation = [stage.activation_bytes for stage in problem.stages]
    offload = [stage.offload_bytes for stage in problem.stages]
    late = [[stage.late_bytes(m) for m in count] for stage in problem.stages]
    allocated = [[stage.backward_allocation_bytes(m) for m in count] for stage in problem.stages]
    freed = [[stage.backward_free_bytes(m) for m in count] for stage in problem.stages]
    for op, s, m, start, end in ops:
        if op == "F":
            own[s].append((start, activation[s][m]))
        elif op == "B":
            own[s].append((start, allocated[s][m]))
            own[s].append((end, -freed[s][m]))
        elif op == "W":
            own[s].append((end, -late[s][m]))
        elif op == "O":
            own[s].append((end, -offload[s][m]))
        else:
            own[s].append((start, offload[s][m]))
    return events


def host_memory_events(problem: PipelineProblem, ops: Iterable[TimedOp]) -> list[list[MemoryEvent]]:
    """Allocations (an offload starts) and frees (its reload ends) of each host."""
    events: list[list[MemoryEvent]] = [[] for _ in problem.hosts]
    for op, s, m, start, end in ops:
        host = problem.devices[problem.stages[s].device].host
        if host is None:
            continue
        if op == "O":
            events[host].append((start, problem.stages[s].offload_bytes[m]))
        elif op == "R":
            events[host].append((end, -problem.stages[s].offload_bytes[m]))
    return events


def memory_timeline(events: list[MemoryEvent]) -> list[MemoryEvent]:
    """Bytes in use from each instant on. Frees of an instant come before its allocations."""
    used = 0
    last: dict[int, int] = {}
    for when, delta in sorted(events, key=itemgetter(0)):
        used += delta
        last[when] = used
    return list(last.items())


def peak_bytes(events: list[MemoryEvent]) -> tuple[int, int]:
    """The largest use and the first instant at which it is reached; (0, 0) without events.

    Because frees come first, what is in use after all events of an instant is its peak.
    """
    peak, instant = 0, 0
    for when, used in memory_timeline(events):
        if used > peak:
            peak, instant = used, when
    return peak, instant
