"""Where the stages of a pipeline lie: the placements that a model of so many layers allows."""

from __future__ import annotations

from dataclasses import dataclass

INTERLEAVED_CHUNKS = (2, 4)


@dataclass(frozen=True, slots=True)
class Placement:
    """`device_of_stage[s]` runs stage s."""

    name: str
    device_of_stage: tuple[int, ...]

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return max(self.device_of_stage) + 1

    @property
    def chunks(self) -> int:
        """Stages per device."""
        return len(self.device_of_stage) // self.devices

    def stages_of(self, device: int) -> tuple[int, ...]:
        """Stage numbers on a device, ascending."""
        return tuple(s for s, d in enumerate(self.device_of_stage) if d == device)


def interleaved(devices: int, chunks: int) -> Placement:
    """So many chunks per device, each pass going round the devices (Narayanan et al. 2021)."""
    name = "one_chunk" if chunks == 1 else f"interleaved_{chunks}"
    return Placement(name, tuple(range(devices)) * chunks)


def placements(devices: int, layers: int) -> list[Placement]:
    """One chunk per device; interleaved chunks; a V shape whose first and last stage share a
    device (Qi et al. 2024, ZB-V). Each stage needs a layer."""
    found = [interleaved(devices, 1)]
    if devices == 1:
        return found
    found += [
        interleaved(devices, chunks) for chunks in INTERLEAVED_CHUNKS if layers >= chunks * devices
    ]
    if layers >= 2 * devices:
        there = tuple(range(devices))
        found.append(Placement("v_shape", there + tuple(reversed(there))))
    return found
