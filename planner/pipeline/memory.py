"""Memory in use over time, per device and per host, of a timed schedule (rules 5 and 6)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
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
    for op, s, m, start, end in ops:
        stage = problem.stages[s]
        device = events[stage.device]
        if op == "F":
            device.append((start, stage.activation_bytes[m]))
        elif op == "B":
            device.append((start, stage.backward_allocation_bytes(m)))
            device.append((end, -stage.backward_free_bytes(m)))
        elif op == "W":
            device.append((end, -stage.late_bytes(m)))
        elif op == "O":
            device.append((end, -stage.offload_bytes[m]))
        else:
            device.append((start, stage.offload_bytes[m]))
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
    timeline = []
    used = 0
    for when, group in groupby(sorted(events), key=itemgetter(0)):
        used += sum(delta for _, delta in group)
        timeline.append((when, used))
    return timeline


def peak_bytes(events: list[MemoryEvent]) -> tuple[int, int]:
    """The largest use and the first instant at which it is reached; (0, 0) without events.

    Because frees come first, what is in use after all events of an instant is its peak.
    """
    peak, instant = 0, 0
    for when, used in memory_timeline(events):
        if used > peak:
            peak, instant = used, when
    return peak, instant
