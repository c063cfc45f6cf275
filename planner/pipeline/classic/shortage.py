"""What a classic schedule lacks where it does not fit: a device's memory, or that of a host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from planner.pipeline.classic.timed import TimedClassic
from planner.sizes import gib


@dataclass(frozen=True)
class Shortage:
    """What a schedule lacks most: a device's memory, or that of a host."""

    device: int | None
    host: int | None
    needed_bytes: int
    limit_bytes: int

    @property
    def missing_bytes(self) -> int:
        """What is needed beyond the limit."""
        return self.needed_bytes - self.limit_bytes

    def __str__(self) -> str:
        where = f"host {self.host}" if self.device is None else f"device {self.device}"
        return (
            f"out of memory: {where} needs {gib(self.needed_bytes)} and has "
            f"{gib(self.limit_bytes)}, {gib(self.missing_bytes)} too little"
        )


def shortage(timed: TimedClassic) -> Shortage | None:
    """Which device or host is most short of memory, and by how much; None if all have enough."""
    return max(_shortages(timed), key=attrgetter("missing_bytes"), default=None)


def _shortages(timed: TimedClassic) -> Iterator[Shortage]:
    """Each device and host that is short of memory."""
    for d, (device, peak) in enumerate(
        zip(timed.problem.devices, timed.peak_memory_bytes, strict=True)
    ):
        if device.activation_memory_bytes is not None and peak > device.activation_memory_bytes:
            yield Shortage(d, None, peak, device.activation_memory_bytes)
    for h, (host, peak) in enumerate(
        zip(timed.problem.hosts, timed.host_peak_memory_bytes, strict=True)
    ):
        if host.memory_bytes is not None and peak > host.memory_bytes:
            yield Shortage(None, h, peak, host.memory_bytes)
