"""From a placement to a pipeline problem: layers, memory, epilogues, links and transfers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.cost import times
from planner.cost.blocks import (
    Blocks,
    activation_shape,
    build_blocks,
    offloading,
    sum_blocks,
    training_state_bytes,
)
from planner.cost.hardware import Cluster
from planner.cost.links import HostLinks, find_host_links, rank_tier
from planner.cost.memory import boundary_bytes
from planner.cost.model import Model
from planner.cost.offload.paths import OffloadPath
from planner.cost.offload.screening import MOST_CANDIDATES, most_promising, worth_trying
from planner.cost.offload.variants import OffloadVariant, offload_variants
from planner.cost.parameters import (
    Shard,
    embedding_shard,
    head_shard,
    layer_shard,
    word_embedding_shard,
)
from planner.cost.partition import partition_layers
from planner.cost.placement import Placement, interleaved, placements
from planner.cost.problem_parts import StageCosts, hosts_from, stage_from
from planner.cost.routes import Route, tier_route
from planner.cost.times import StateRoutes
from planner.cost.training import Training
from planner.pipeline.problem import Device, Duplex, PipelineProblem, Transfer


@dataclass(frozen=True, slots=True)
class Candidate:
    """One placement of the pipeline as a problem.

    `offload` names the way to offload, empty for the usual one. `layers_per_stage` counts
    transformer layers; `static_bytes` is what each device holds all the time: parameters,
    gradients and optimizer states.
    """

    placement: str
    problem: PipelineProblem
    offload: str
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
    """Everything that the placements of one spec share.

    `blocks` are without compression and NUMA; `variants` the ways to offload that are open.
    """

    model: Model
    cluster: Cluster
    training: Training
    blocks: Blocks
    links: HostLinks
    variants: tuple[OffloadVariant, ...]

    @classmethod
    def of(cls, model: Model, cluster: Cluster, training: Training) -> CostModel:
        """Compute the block costs of a spec."""
        links = find_host_links(cluster, training.degrees)
        blocks = build_blocks(model, cluster, training, links)
        variants = offload_variants(
            training.offload_choice, training.element_bytes, cluster, training.degrees, links
        )
        return cls(model, cluster, training, blocks, links, variants)

    def candidates(self) -> tuple[Candidate, ...]:
        """The problem of each placement whose model states leave room for activations, and of each
        way to offload that is worth trying there; the first way first."""
        placed = self._placements()
        variants, found = self.variants, []
        for placement in placed:
            made = {v: c for v in variants if (c := self._candidate(placement, v)) is not None}
            tried = worth_trying({v: c.problem for v, c in made.items()})
            if len(tried) * len(placed) > MOST_CANDIDATES:
                variants = tried = most_promising({v: made[v].problem for v in tried}, len(placed))
            found += [(v, made[v]) for v in tried]
        found.sort(key=lambda pair: self.variants.index(pair[0]))
        return tuple(candidate for _, candidate in found)

    def again(self, candidate: Candidate) -> Candidate | None:
        """A candidate of another cost model of the same model and degrees, with the rates of this
        one: the same placement, layers per stage and way to offload. None where it has no such, or
        no room."""
        training = replace(self.training, layers_per_stage=candidate.layers_per_stage)
        fixed = replace(self, training=training)
        made = (
            fixed._candidate(placement, variant)
            for placement in self._placements()
            for variant in self.variants
            if _name(placement, variant) == candidate.placement
        )
        return next(made, None)

    def needs(self) -> tuple[DeviceNeed, ...]:
        """What each device needs at the least, with one chunk per device unless more are asked
        for."""
        placement = self._placements()[0]
        layers = self.layers_per_stage(placement)
        stages = [
            stage_from(costs, 1) for costs in self.stage_costs(placement, layers, self.variants[0])
        ]

        def need(device: int) -> DeviceNeed:
            own = placement.stages_of(device)
            shard = self.parameters_of(placement, device, sum(layers[s] for s in own))
            kept = sum(stages[s].activation_bytes[0] for s in own)
            added = max(stages[s].backward_allocation_bytes(0) for s in own)
            return DeviceNeed(device, self.static_bytes(shard), kept + added)

        return tuple(need(device) for device in range(placement.devices))

    def _placements(self) -> list[Placement]:
        pipeline, chunks = self.training.degrees.pipeline, self.training.interleaving
        if chunks is not None:
            return [interleaved(pipeline, chunks)]
        return placements(pipeline, self.model.layers)

    def _candidate(self, placement: Placement, variant: OffloadVariant) -> Candidate | None:
        layers = self.layers_per_stage(placement)
        devices = range(placement.devices)
        parameters = [
            self.parameters_of(
                placement, device, sum(layers[s] for s in placement.stages_of(device))
            )
            for device in devices
        ]
        static = tuple(self.static_bytes(count) for count in parameters)
        room = [self.activation_memory_bytes(size) for size in static]
        if min(room) <= 0:
            return None
        path, stages = variant.path, self.stage_costs(placement, layers, variant)
        name = _name(placement, variant)
        problem = PipelineProblem(
            micro_batches=self.training.micro_batches,
            devices=tuple(
                self._device(placement, path, device, parameters[device], room[device])
                for device in devices
            ),
            stages=tuple(stage_from(costs, self.training.micro_batches) for costs in stages),
            transfers=self._transfers(placement),
            hosts=hosts_from(path, stages),
            host_link_duplex=self.cluster.host_link_duplex,
            host_links=dict.fromkeys(sorted(path.half_duplex_links), Duplex.HALF),
            micro_batch_order=self.training.micro_batch_order,
            objective=self.training.objective,
            name=f"{self.model.name} on {self.training.degrees.gpus} x {self.cluster.gpu.name}, "
            f"{name}",
        )
        return Candidate(name, problem, variant.name, layers, static)

    def activation_memory_bytes(self, static_bytes: int) -> int:
        """What a device has left for activations beside its model states, as measured if it was."""
        measured = self.training.profile.activation_memory_bytes
        if measured is not None:
            return measured
        return self.cluster.memory_bytes - self.cluster.reserved_bytes - static_bytes

    def layers_per_stage(self, placement: Placement) -> tuple[int, ...]:
        """As given, or else balanced: devices first (`partition_layers`), then the chunks of each
        device."""
        if self.training.layers_per_stage is not None:
            return self.training.layers_per_stage
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

    def parameters_of(self, placement: Placement, device: int, layers: int) -> Shard:
        """Parameters on each GPU of a device, embedding and head where it has those stages."""
        degrees = self.training.degrees
        stages = placement.stages_of(device)
        last = len(placement.device_of_stage) - 1
        shard = layer_shard(self.model, degrees.tensor, degrees.expert).times(layers)
        if 0 in stages:
            shard += Shard(embedding_shard(self.model, degrees.tensor))
        if last in stages:
            head = head_shard(self.model, degrees.tensor, shares_embedding=0 in stages)
            shard += Shard(head)
        return shard

    def static_bytes(self, shard: Shard) -> int:
        """Model states of so many parameters; ZeRO stage 3 also holds one gathered layer."""
        states = training_state_bytes(self.training)
        degrees, stage = self.training.degrees, self.training.zero_stage
        total = states.on_rank(shard, stage, degrees)
        if stage == 3 and degrees.replicas > 1:
            layer = layer_shard(self.model, degrees.tensor, degrees.expert)
            total += layer.total * states.parameter
        return total

    def _device(
        self, placement: Placement, path: OffloadPath, device: int, parameters: Shard, room: int
    ) -> Device:
        epilogue_ns = self.training.profile.epilogue_ns
        if epilogue_ns is None:
            epilogue_ns = self._epilogue_ns(placement, device, parameters)
        gpus = self.training.degrees.gpus_of_rank(device)
        node, first = divmod(gpus[0], self.cluster.gpus_per_node)
        where = f"GPU {first}" if len(gpus) == 1 else f"GPUs {first}-{first + len(gpus) - 1}"
        return Device(
            activation_memory_bytes=room,
            host_link=path.link_of_rank[device],
            host=path.store_of_rank[device] if path.is_limited else None,
            epilogue_ns=epilogue_ns,
            name=f"rank {device} (node {node}, {where})",
        )

    def _epilogue_ns(self, placement: Placement, device: int, parameters: Shard) -> int:
        """Gradient reduction over the ranks that hold the same parameters, that of a tied embedding
        held by both the first and the last device (Megatron-LM), and the optimizer step."""
        states = training_state_bytes(self.training)
        degrees, stage = self.training.degrees, self.training.zero_stage
        routes = StateRoutes.of(degrees, self.cluster)
        seconds = times.gradient_reduction_s(parameters, states, stage, routes)
        first, last = placement.device_of_stage[0], placement.device_of_stage[-1]
        if self.model.tied_embeddings and first != last and device in (first, last):
            size = word_embedding_shard(self.model, degrees.tensor) * states.gradient
            seconds += self._route(first, last).all_reduce_s(size, 2)
        seconds += times.optimizer_s(parameters, states, stage, degrees, self.cluster)
        return times.whole_us_ns(seconds)

    def stage_costs(
        self, placement: Placement, layers: tuple[int, ...], variant: OffloadVariant
    ) -> tuple[StageCosts, ...]:
        """What each stage of a placement takes per micro-batch."""
        routes = variant.path.route_of_rank
        blocks_on = {
            route: offloading(self.blocks, self.training, route, variant.compressor)
            for route in set(routes)
        }
        last = len(layers) - 1
        stages = []
        first_layer = 0
        for number, device in enumerate(placement.device_of_stage):
            blocks = blocks_on[routes[device]]
            parts = [blocks.layer] * layers[number]
            name = f"layers {first_layer}-{first_layer + layers[number] - 1}"
            if number == 0:
                parts.append(blocks.embedding)
                name = f"embedding, {name}"
            if number == last:
                parts.append(blocks.head)
                name = f"{name}, head"
            first_layer += layers[number]
            stages.append(StageCosts(device, sum_blocks(parts), name))
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

    def _route(self, device: int, other: int) -> Route:
        tier = rank_tier(self.cluster, self.training.degrees, device, other)
        return tier_route(self.cluster, tier)


def _name(placement: Placement, variant: OffloadVariant) -> str:
    return ", ".join(part for part in (placement.name, variant.name) if part)
