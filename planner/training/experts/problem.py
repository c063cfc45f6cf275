"""The experts of some layers, and the group of devices that shares them (expert parallelism)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.errors import SpecError
from planner.sizes import gib
from planner.training.experts.layer import Layer
from planner.training.experts.routing import Routing

PATH = ("training", "expert_parallel")
EXCHANGES_OF_A_LAYER = 4
"""Tokens are dispatched to their experts and combined again, forward and backward (Lepikhin et al.
2020, GShard)."""


@dataclass(frozen=True, slots=True)
class ExpertGroup:
    """Devices among which the experts of each layer are divided.

    Rates are of one device in one direction, inside a node and to other nodes. `memory_bytes` is
    what each device has left for states of experts, of all layers together; None = no limit.
    """

    node_of_device: tuple[int, ...]
    link_bytes_per_s: float
    network_bytes_per_s: float
    memory_bytes: tuple[int, ...] | None = None

    @property
    def devices(self) -> int:
        """Devices of the group."""
        return len(self.node_of_device)


@dataclass(frozen=True, slots=True)
class ExpertCosts:
    """What an expert and its tokens cost.

    `state_bytes` is what one expert of one layer keeps on its device; `tokens` how many tokens of
    a micro-batch each device begins with; `token_bytes` what is sent of a token to one expert;
    `token_compute_s` how long one expert takes for one token, forward and backward together.
    """

    state_bytes: int
    tokens: int
    token_bytes: int
    token_compute_s: float
    exchanges: int = EXCHANGES_OF_A_LAYER


@dataclass(frozen=True, slots=True)
class ExpertProblem:
    """Which device holds which experts of each layer of `routing`.

    With `equal_counts` each holds as many, which Megatron-LM asks for.
    """

    routing: Routing
    group: ExpertGroup
    costs: ExpertCosts
    equal_counts: bool = True

    def layers(self) -> list[Layer]:
        """One packing problem per layer. Raises `SpecError` where the experts cannot be divided or
        do not fit."""
        capacities = self._capacities()
        return [
            self._layer(sorted(weights, reverse=True), capacity)
            for weights, capacity in zip(self.routing.whole_weights, capacities, strict=True)
        ]

    def _layer(self, weights: Sequence[int], capacity: tuple[int, ...]) -> Layer:
        group, costs = self.group, self.costs
        total = sum(weights)
        tokens = costs.tokens * self.routing.experts_per_token / total
        sent_bytes = costs.exchanges * tokens * costs.token_bytes
        link_s, network_s = (
            sent_bytes / rate for rate in (group.link_bytes_per_s, group.network_bytes_per_s)
        )
        sizes = [group.node_of_device.count(node) for node in group.node_of_device]
        # Where all nodes are equally large, what a device sends elsewhere is no more than what the
        # most loaded device gets from there.
        uneven = len(set(sizes)) > 1
        return Layer(
            weights=tuple(weights),
            capacity=capacity,
            equal=self.equal_counts,
            node_of_device=group.node_of_device,
            compute_s=costs.token_compute_s * tokens * group.devices,
            arrival_s=tuple(
                max((size - 1) * link_s, (group.devices - size) * network_s) for size in sizes
            ),
            departure_s=network_s if uneven else 0.0,
        )

    def _capacities(self) -> list[tuple[int, ...]]:
        """Most experts of each layer on each device."""
        experts, layers, devices = self.routing.experts, self.routing.layers, self.group.devices
        rooms = self._rooms()
        if not self.equal_counts:
            if sum(rooms) < experts * layers:
                raise self._shortage(
                    experts * layers,
                    f"and the {devices} devices of the group have room for {sum(rooms)} of them",
                )
            return _dealt(rooms, layers)
        if experts % devices:
            degrees = [degree for degree in range(1, experts + 1) if experts % degree == 0]
            raise SpecError(
                PATH,
                f"{experts} experts cannot be divided equally among {devices} devices.",
                f"Degrees that divide them: {', '.join(map(str, degrees))}.",
            )
        each = experts // devices
        for device, room in enumerate(rooms):
            if room < each * layers:
                raise self._shortage(
                    each * layers,
                    f"and device {device} of the group has room for {room} of them",
                )
        return [(each,) * devices] * layers

    def _rooms(self) -> list[int]:
        """How many experts, of all layers together, fit on each device."""
        experts = self.routing.experts * self.routing.layers
        if self.group.memory_bytes is None:
            return [experts] * self.group.devices
        size = max(1, self.costs.state_bytes)
        return [min(experts, memory // size) for memory in self.group.memory_bytes]

    def _shortage(self, experts: int, but: str) -> SpecError:
        size = experts * self.costs.state_bytes
        return SpecError(
            PATH,
            f"{experts} experts (of {self.routing.layers} layers) take {gib(size)}, {but}.",
            "Raise expert_parallel or pipeline_parallel, or shard the states further (zero_stage).",
        )


def _dealt(rooms: Sequence[int], layers: int) -> list[tuple[int, ...]]:
    """The room of each device in equal parts for the layers; what is left over goes to one layer
    after the other, so that those of all devices together are equal too, within one."""
    capacities: list[list[int]] = [[] for _ in range(layers)]
    turn = 0
    for room in rooms:
        each, over = divmod(room, layers)
        for layer in range(layers):
            has_extra = (layer - turn) % layers < over
            capacities[layer].append(each + has_extra)
        turn += over
    return [tuple(capacity) for capacity in capacities]


def contiguous(experts: int, devices: int) -> tuple[tuple[int, ...], ...]:
    """Where the experts are by default: neighbours on one device (Megatron-LM)."""
    placement: list[list[int]] = [[] for _ in range(devices)]
    for expert in range(experts):
        placement[expert * devices // experts].append(expert)
    return tuple(map(tuple, placement))


def load_factor(placement: Sequence[Sequence[int]], frequencies: Sequence[float]) -> float:
    """Load of the most loaded device over the mean of all devices.

    `placement` has the experts of each device, `frequencies` those of the experts in any unit. The
    devices of a group wait for the most loaded one, so this multiplies how long experts compute.
    """
    loads = [sum(frequencies[expert] for expert in experts) for experts in placement]
    return max(loads) * len(loads) / sum(loads)
