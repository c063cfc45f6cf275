"""When each device stands idle, and why: what its next operation waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from planner.pipeline.schedule import TimedOp
from planner.pipeline.timeline.bindings import WaitsFor

IDLE_REASONS = ("fill", "dependency", "memory", "link", "slack", "drain")
"""`fill`: before the first operation; `drain`: after the last one and the epilogue; in between
what the next operation waits for."""


@dataclass(frozen=True)
class Idle:
    """A gap of a device; `next` is the number of the operation that ends it."""

    start_ns: int
    end_ns: int
    reason: str
    next: int | None

    def to_document(self) -> dict[str, Any]:
        """The gap as the API answers with it."""
        return {
            "start_ns": self.start_ns,
            "end_ns": self.end_ns,
            "reason": self.reason,
            "next": self.next,
        }


@dataclass(frozen=True)
class DeviceTime:
    """How a device spends the makespan: `busy_ns` (its epilogue included) and the gaps."""

    busy_ns: int
    gaps: tuple[Idle, ...]

    def idle_ns(self) -> dict[str, int]:
        """Idle time by reason."""
        total = dict.fromkeys(IDLE_REASONS, 0)
        for gap in self.gaps:
            total[gap.reason] += gap.end_ns - gap.start_ns
        return total


def device_time(
    ops: Sequence[TimedOp],
    own: Sequence[int],
    waits_for: Sequence[WaitsFor],
    epilogue_ns: int,
    from_ns: int,
    until_ns: int,
) -> DeviceTime:
    """How the device spends `from_ns` to `until_ns`; `own` are the numbers of its F, B and W by
    start. A device without any does nothing, not even its epilogue."""
    if not own:
        return DeviceTime(0, (Idle(from_ns, until_ns, "fill", None),))
    gaps = tuple(_gaps(ops, own, waits_for, epilogue_ns, from_ns, until_ns))
    return DeviceTime(sum(ops[i].end_ns - ops[i].start_ns for i in own) + epilogue_ns, gaps)


def _gaps(
    ops: Sequence[TimedOp],
    own: Sequence[int],
    waits_for: Sequence[WaitsFor],
    epilogue_ns: int,
    from_ns: int,
    until_ns: int,
) -> Iterator[Idle]:
    # An operation of no length ends no gap, unless it is the last one: the epilogue follows it.
    final = max(own, key=lambda i: (ops[i].end_ns, i))
    free_ns, is_first = from_ns, True
    for i in own:
        if ops[i].end_ns == ops[i].start_ns and i != final:
            continue
        if ops[i].start_ns > free_ns:
            reason = "fill" if is_first else _within(waits_for[i])
            yield Idle(free_ns, ops[i].start_ns, reason, i)
        free_ns, is_first = max(free_ns, ops[i].end_ns), False
    if free_ns + epilogue_ns < until_ns:
        yield Idle(free_ns + epilogue_ns, until_ns, "drain", None)


def _within(waits_for: WaitsFor) -> str:
    """An operation of no length does not wait for its turn, but one of another may: no reason."""
    return waits_for if waits_for in IDLE_REASONS else "slack"
