"""What every device and host holds over the time of a schedule, and where that sets a limit."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from planner.pipeline.memory import (
    MemoryEvent,
    device_memory_events,
    host_memory_events,
    memory_timeline,
    peak_bytes,
)
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp


@dataclass(frozen=True)
class MemoryUse:
    """The bytes in use of one memory: `in_use[k]` from `at_ns[k]` on."""

    at_ns: tuple[int, ...]
    in_use: tuple[int, ...]
    peak_bytes: int
    limit_bytes: int | None

    @property
    def keeps_limit(self) -> bool:
        """Whether there is a limit, and the schedule keeps it. Where it does not, it was made
        without regard to the limit, which then is not what anything waits for."""
        return self.limit_bytes is not None and self.peak_bytes <= self.limit_bytes

    def before_ns(self, instant: int) -> int:
        """Bytes in use just before an instant."""
        k = bisect_left(self.at_ns, instant)
        return self.in_use[k - 1] if k else 0

    def to_document(self) -> dict[str, list[int]]:
        """The steps."""
        return {"at_ns": list(self.at_ns), "bytes": list(self.in_use)}


def device_memories(
    problem: PipelineProblem, ops: Iterable[TimedOp], from_ns: int
) -> list[MemoryUse]:
    """The memory of each device, from the schedule's first instant on."""
    limits = [device.activation_memory_bytes for device in problem.devices]
    events = device_memory_events(problem, ops)
    return [_use(own, limit, from_ns) for own, limit in zip(events, limits, strict=True)]


def host_memories(
    problem: PipelineProblem, ops: Iterable[TimedOp], from_ns: int
) -> list[MemoryUse]:
    """The memory of each host, from the schedule's first instant on."""
    limits = [host.memory_bytes for host in problem.hosts]
    events = host_memory_events(problem, ops)
    return [_use(own, limit, from_ns) for own, limit in zip(events, limits, strict=True)]


def _use(events: list[MemoryEvent], limit_bytes: int | None, from_ns: int) -> MemoryUse:
    at_ns, in_use = [from_ns], [0]
    for when, used in memory_timeline(events):
        if when == from_ns:
            in_use[0] = used
        elif used != in_use[-1]:
            at_ns.append(when)
            in_use.append(used)
    return MemoryUse(tuple(at_ns), tuple(in_use), peak_bytes(events)[0], limit_bytes)
