"""By how many bytes a device or a host falls short of any schedule."""

from __future__ import annotations

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
