"""From a placement to a pipeline problem: layers, memory, epilogues, links and transfers."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost import times
from planner.cost.blocks import (
    Block,
    Blocks,
    activation_shape,
    build_blocks,
    data_parallel_route,
    sum_blocks,
    training_state_bytes,
)
from planner.cost.hardware import Cluster
from planner.cost.links import HostLinks, find_host_links, in_one_node
from planner.cost.memory import boundary_bytes
from planner.cost.model import Model
from planner.cost.parameters import (
    embedding_shard,
    head_shard,
    layer_shard,
    word_embedding_shard,
)
from planner.cost.partition import partition_layers
from planner.cost.placement import Placement, placements
from planner.cost.training import Training
from planner.pipeline.problem import Device, Host, PipelineProblem, Stage, Transfer


@dataclass(frozen=True, slots=True)
class Candidate:
    """One placement of the pipeline as a problem.

    `layers_per_stage` counts transformer layers; `static_bytes` is what each device holds all the
    time: parameters, gradients and optimizer states.
    """

    placement: str
    problem: PipelineProblem
    layers_per_stage: tuple[int, ...]
    static_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DeviceNeed:
    """What a device needs at the least: model states, and on top one micro-batch alone."""

    device: int
    static_bytes: int
    micro_batch_bytes: int


@dataclass(frozen=True, slots=True)
class CostModel:
    """Everything that the placements of one spec share."""

    model: Model
    cluster: Cluster
    training: Training
    blocks: Blocks
    links: HostLinks

    @classmethod
    def of(cls, model: Model, cluster: Cluster, training: Training) -> CostModel:
        """Compute the block costs of a spec."""
        links = find_host_links(cluster, training.degrees)
        blocks = build_blocks(model, cluster, training, links)
        return cls(model, cluster, training, blocks, links)

    def candidates(self) -> tuple[Candidate, ...]:
        """The problem of each placement whose model states leave room for activations."""
        found = (self._candidate(p) for p in self._placements())
        return tuple(candidate for candidate in found if candidate is not None)

    def needs(self) -> tuple[DeviceNeed, ...]:
        """What each device needs at the least with one chunk per device."""
        placement = self._placements()[0]
        layers = self.layers_per_stage(placement)
        stages = self._stages(placement, layers)
        return tuple(
            DeviceNeed(
                device,
                self.static_bytes(self.parameters_of(placement, device, layers[device])),
                stages[device].activation_bytes[0] + stages[device].backward_allocation_bytes(0),
            )
            for device in range(placement.devices)
        )

    def _placements(self) -> list[Placement]:
        return placements(self.training.degrees.pipeline, self.model.layers)

    def _candidate(self, placement: Placement) -> Candidate | None:
        layers = self.layers_per_stage(placement)
        devices = range(placement.devices)
        parameters = [
            self.parameters_of(
                placement, device, sum(layers[s] for s in placement.stages_of(device))
            )
            for device in devices
        ]
        static = tuple(self.static_bytes(count) for count in parameters)
        room = [self._activation_memory_bytes(size) for size in static]
        if min(room) <= 0:
            return None
        problem = PipelineProblem(
            micro_batches=self.training.micro_batches,
            devices=tuple(
                self._device(placement, device, parameters[device], room[device])
                for device in devices
            ),
            stages=self._stages(placement, layers),
            transfers=self._transfers(placement),
            hosts=self._hosts(),
            host_link_duplex=self.cluster.host_link_duplex,
            micro_batch_order=self.training.micro_batch_order,
            objective=self.training.objective,
            name=f"{self.model.name} on {self.training.degrees.gpus} x {self.cluster.gpu.name}, "
            f"{placement.name}",
        )
        return Candidate(placement.name, problem, layers, static)

    def _activation_memory_bytes(self, static_bytes: int) -> int:
        measured = self.training.profile.activation_memory_bytes
        if measured is not None:
            return measured
        return self.cluster.memory_bytes - self.cluster.reserved_bytes - static_bytes

    def layers_per_stage(self, placement: Placement) -> tuple[int, ...]:
        """Balance devices first (`partition_layers`), then the chunks of each device."""
        last = len(placement.device_of_stage) - 1
        extra = [0] * (last + 1)
        extra[0] += self.blocks.embedding.compute_ns
        extra[last] += self.blocks.head.compute_ns
        devices = range(placement.devices)
        layer = self.blocks.layer
        on_device = partition_layers(
            self.model.layers,
            layer.compute_ns,
            [sum(extra[s] for s in placement.stages_of(device)) for device in devices],
            lambda device, count: self.expected_bytes(placement, device, count),
            minimum=placement.chunks,
        )
        layers = [0] * (last + 1)
        for device in devices:
            stages = placement.stages_of(device)
            split = partition_layers(
                on_device[device],
                layer.compute_ns,
                [extra[s] for s in stages],
                lambda _chunk, count: count,
            )
            for stage, count in zip(stages, split, strict=True):
                layers[stage] = count
        return tuple(layers)

    def expected_bytes(self, placement: Placement, device: int, layers: int) -> int:
        """States, and the activations of as many micro-batches as 1F1B keeps on the device."""
        in_flight = min(self.training.micro_batches, placement.devices - device)
        static = self.static_bytes(self.parameters_of(placement, device, layers))
        return static + in_flight * layers * self.blocks.layer.activation_bytes

    def parameters_of(self, placement: Placement, device: int, layers: int) -> int:
        """Parameters on each GPU of a device, embedding and head where it has those stages."""
        tensor = self.training.degrees.tensor
        stages = placement.stages_of(device)
        last = len(placement.device_of_stage) - 1
        count = layers * layer_shard(self.model, tensor)
        if 0 in stages:
            count += embedding_shard(self.model, tensor)
        if last in stages:
            count += head_shard(self.model, tensor, shares_embedding=0 in stages)
        return count

    def static_bytes(self, parameters: int) -> int:
        """Model states of so many parameters; ZeRO stage 3 also holds one gathered layer."""
        states = training_state_bytes(self.training)
        degrees, stage = self.training.degrees, self.training.zero_stage
        total = states.on_rank(parameters, stage, degrees.data)
        if stage == 3 and degrees.data > 1:
            total += layer_shard(self.model, degrees.tensor) * states.parameter
        return total

    def _device(self, placement: Placement, device: int, parameters: int, room: int) -> Device:
        epilogue_ns = self.training.profile.epilogue_ns
        if epilogue_ns is None:
            epilogue_ns = self._epilogue_ns(placement, device, parameters)
        gpus = self.training.degrees.gpus_of_rank(device)
        node, first = divmod(gpus[0], self.cluster.gpus_per_node)
        where = f"GPU {first}" if len(gpus) == 1 else f"GPUs {first}-{first + len(gpus) - 1}"
        return Device(
            activation_memory_bytes=room,
            host_link=self.links.link_of_rank[device],
            host=None
            if self.cluster.host_memory_bytes is None
            else self.links.host_of_rank[device],
            epilogue_ns=epilogue_ns,
            name=f"rank {device} (node {node}, {where})",
        )

    def _epilogue_ns(self, placement: Placement, device: int, parameters: int) -> int:
        """Gradient reduction over data-parallel ranks, that of a tied embedding held by both the
        first and the last device (Megatron-LM), and the optimizer step."""
        states = training_state_bytes(self.training)
        degrees, stage = self.training.degrees, self.training.zero_stage
        route = data_parallel_route(self.training, self.cluster)
        seconds = times.gradient_reduction_s(parameters, states, stage, degrees.data, route)
        first, last = placement.device_of_stage[0], placement.device_of_stage[-1]
        if self.model.tied_embeddings and first != last and device in (first, last):
            size = word_embedding_shard(self.model, degrees.tensor) * states.gradient
            seconds += self._route(first, last).all_reduce_s(size, 2)
        seconds += times.optimizer_s(parameters, states, stage, degrees.data, self.cluster)
        return times.whole_us_ns(seconds)

    def _stages(self, placement: Placement, layers: tuple[int, ...]) -> tuple[Stage, ...]:
        count = self.training.micro_batches
        last = len(layers) - 1
        stages = []
        first_layer = 0
        for number, device in enumerate(placement.device_of_stage):
            parts = [self.blocks.layer] * layers[number]
            name = f"layers {first_layer}-{first_layer + layers[number] - 1}"
            if number == 0:
                parts.append(self.blocks.embedding)
                name = f"embedding, {name}"
            if number == last:
                parts.append(self.blocks.head)
                name = f"{name}, head"
            first_layer += layers[number]
            stages.append(_stage(sum_blocks(parts), device, count, name))
        return tuple(stages)

    def _transfers(self, placement: Placement) -> tuple[Transfer, ...]:
        count = self.training.micro_batches
        size = boundary_bytes(self.model, activation_shape(self.training))
        measured = self.training.profile.transfer_ns
        transfers = []
        for left, right in zip(
            placement.device_of_stage, placement.device_of_stage[1:], strict=False
        ):
            if left == right:
                duration_ns = 0
            elif measured is not None:
                duration_ns = measured
            else:
                duration_ns = times.whole_us_ns(self._route(left, right).transfer_s(size))
            durations = (duration_ns,) * count
            transfers.append(Transfer(durations, durations))
        return tuple(transfers)

    def _route(self, device: int, other: int) -> times.Route:
        inside = in_one_node(self.cluster, self.training.degrees, device, other)
        return times.link_route(self.cluster) if inside else times.network_route(self.cluster)

    def _hosts(self) -> tuple[Host, ...]:
        """A rank stands for all its GPUs, which offload as much each: the limit is divided."""
        if self.cluster.host_memory_bytes is None:
            return ()
        limit = self.cluster.host_memory_bytes // self.links.gpus_per_host
        return tuple(
            Host(limit, f"node {node}") for node in range(max(self.links.host_of_rank) + 1)
        )


def _stage(block: Block, device: int, count: int, name: str) -> Stage:
    return Stage(
        device=device,
        forward_ns=(block.forward_ns,) * count,
        backward_input_ns=(block.backward_input_ns,) * count,
        backward_weight_ns=(block.backward_weight_ns,) * count,
        activation_bytes=(block.activation_bytes,) * count,
        weight_grad_bytes=(block.weight_grad_bytes,) * count,
        backward_workspace_bytes=(block.backward_workspace_bytes,) * count,
        offload_bytes=(block.offload_bytes,) * count,
        offload_ns=(block.offload_ns,) * count,
        reload_ns=(block.reload_ns,) * count,
        name=name,
    )
