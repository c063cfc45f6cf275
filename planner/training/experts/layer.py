"""One layer's experts to be packed on the devices of a group: loads, and the time they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Packing = tuple[tuple[int, ...], ...]
"""Per device the numbers of its experts."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Experts by whole weights, most frequent first, and devices that hold some of them each.

    A device holds at most `capacity` experts, or exactly so many where the counts are `equal`.
    Seconds are of all passes and exchanges of one micro-batch, per unit of weight: `compute_s` of
    the most loaded device; `arrival_s`, by device, of what it gets over its busiest link;
    `departure_s` of what a device sends to the weights outside its node.
    """

    weights: tuple[int, ...]
    capacity: tuple[int, ...]
    equal: bool
    node_of_device: tuple[int, ...]
    compute_s: float
    arrival_s: tuple[float, ...]
    departure_s: float

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return len(self.capacity)

    @property
    def total(self) -> int:
        """Weight of all experts."""
        return sum(self.weights)

    def devices_of_node(self) -> dict[int, list[int]]:
        """The devices by node."""
        found: dict[int, list[int]] = {}
        for device, node in enumerate(self.node_of_device):
            found.setdefault(node, []).append(device)
        return found

    def loads(self, packing: Sequence[Sequence[int]]) -> list[int]:
        """Weight on each device."""
        return [sum(self.weights[expert] for expert in experts) for experts in packing]

    def exchange_s(self, loads: Sequence[int]) -> float:
        """All-to-all time of the device that gets or sends longest.

        Links are full duplex, and combining is dispatching backwards, so in and out of a device do
        not add up. What a device sends inside its node is left out: another one of the node gets
        at least as much there.
        """
        arrival = max(own * load for own, load in zip(self.arrival_s, loads, strict=True))
        if not self.departure_s:
            return arrival
        on_node: dict[int, int] = {}
        for node, load in zip(self.node_of_device, loads, strict=True):
            on_node[node] = on_node.get(node, 0) + load
        return max(arrival, self.departure_s * (self.total - min(on_node.values())))

    def time_s(self, loads: Sequence[int]) -> float:
        """What a packing is judged by: computing on the most loaded device, then exchanging."""
        return self.compute_s * max(loads) + self.exchange_s(loads)
