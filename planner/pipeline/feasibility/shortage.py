"""By how many bytes a device or a host falls short of any schedule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceShortage:
    """A device at fault: its limit, the smallest that would do, and its need without offloading."""

    device: int
    limit_bytes: int
    smallest_limit_bytes: int
    unassisted_bytes: int


@dataclass(frozen=True)
class HostShortage:
    """A host that has too little room for what its devices must offload."""

    host: int
    limit_bytes: int
    smallest_limit_bytes: int


def alike_devices(
    shortages: Sequence[DeviceShortage],
) -> Iterator[tuple[str, int, int]]:
    """Devices with the same limits together: who, their limit, and the least that would do."""
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)
    for shortage in shortages:
        alike[shortage.limit_bytes, shortage.smallest_limit_bytes].append(shortage.device)
    for (limit, smallest), devices in alike.items():
        yield listed(devices), limit, smallest


def listed(devices: Sequence[int]) -> str:
    """Ascending numbers as text: "device 3", "devices 0-3, 7"."""
    return f"device{'s' if len(devices) > 1 else ''} {runs(devices)}"


def runs(numbers: Sequence[int]) -> str:
    """Ascending numbers as text: "0-3, 7"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)
