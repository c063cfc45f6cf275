"""What no configuration can be faster or smaller than, told before it is worked out.

All from the blocks, which configurations share that differ in little, without a pipeline problem.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.cost import times
from planner.cost.blocks import Blocks, activation_shape, build_blocks
from planner.cost.degrees import Degrees
from planner.cost.hardware import Cluster
from planner.cost.links import HostLinks, rank_tier
from planner.cost.memory import StateBytes, boundary_bytes, ceil_div
from planner.cost.model import Model
from planner.cost.parameters import Shard, embedding_shard, head_shard, layer_shard
from planner.cost.routes import Tier, tier_route
from planner.cost.times import StateRoutes
from planner.cost.training import Training

RESIDENT = 3
"""Activations of a device that are in its memory at once even if all are offloaded: one being
made or used, one on its way out, one on its way back (PipeOffload, arXiv 2503.01328)."""
_NO_LINKS = HostLinks((None,), 1, (0,), 1)
"""The links to the host only matter to offloads."""


@dataclass(frozen=True, slots=True)
class LeastTime:
    """Bounds of a step, in ns: of 1F1B in closed form, and of any schedule whatever."""

    closed_form_ns: int
    any_schedule_ns: int


class Bounds:
    """Bounds of the configurations of one model and cluster; what they share is computed once."""

    def __init__(self, model: Model, cluster: Cluster, states: StateBytes) -> None:
        self._model = model
        self._cluster = cluster
        self._states = states
        self._blocks: dict[Any, Blocks] = {}
        self._routes: dict[Any, StateRoutes] = {}
        self._epilogues: dict[Any, int] = {}
        self._hops: dict[Degrees, tuple[list[Tier], Tier]] = {}
        self._hops_took_ns: dict[Any, int] = {}
        self._busiest: dict[Any, int] = {}
        self._shards: dict[Any, Shard] = {}

    def blocks(self, training: Training) -> Blocks:
        """Block costs without offloads; they depend on data ranks only where ZeRO talks in every
        micro-batch, and on nothing of the pipeline."""
        degrees, zero = training.degrees, training.zero_stage
        key = (
            degrees.tensor,
            degrees.context,
            degrees.expert,
            training.micro_batch_size,
            training.recomputation,
            training.expert_load,
            (zero, degrees.replicas) if zero >= 2 else None,
        )
        if key not in self._blocks:
            without = replace(training, offload=False)
            self._blocks[key] = build_blocks(self._model, self._cluster, without, _NO_LINKS)
        return self._blocks[key]

    def least_time(self, training: Training, zero_stages: tuple[int, ...] = ()) -> LeastTime:
        """With the layers divided as evenly as can be: all but the epilogue is exact.

        With `zero_stages` it holds for any of those instead of the training's own.
        """
        stages = zero_stages or (training.zero_stage,)
        if zero_stages:
            # Stages 0 and 1 do not talk within a step.
            training = replace(training, zero_stage=0)
        blocks, degrees = self.blocks(training), training.degrees
        chunks, layers = training.interleaving or 1, self._model.layers
        ends_ns = blocks.embedding.compute_ns + blocks.head.compute_ns
        busiest = self.busiest_ns(training, blocks)
        rest = layers * blocks.layer.compute_ns + ends_ns - busiest
        work = training.micro_batches * busiest
        hops = self._hops_ns(training, chunks)
        epilogues = [self._least_epilogues_ns(degrees, chunks, stage) for stage in stages]
        return LeastTime(
            work + rest // chunks + hops // chunks + min(last for last, _ in epilogues),
            work + min(least for _, least in epilogues),
        )

    def _least_epilogues_ns(self, degrees: Degrees, chunks: int, stage: int) -> tuple[int, int]:
        """The longest epilogue of any rank, and the shortest, at the least."""
        pipeline, layers = degrees.pipeline, self._model.layers
        if pipeline == 1:
            only = self._epilogue_ns(degrees, stage, layers, True, True)
            return only, only
        longest = max(
            self._epilogue_ns(degrees, stage, ceil_div(layers, pipeline), False, False),
            self._epilogue_ns(degrees, stage, chunks, True, False),
            self._epilogue_ns(degrees, stage, chunks, False, True),
        )
        return longest, self._epilogue_ns(degrees, stage, chunks, False, False)

    def busiest_ns(self, training: Training, blocks: Blocks) -> int:
        """Work of the busiest device for one micro-batch."""
        pipeline, chunks = training.degrees.pipeline, training.interleaving or 1
        given = training.layers_per_stage
        first, layer, last = (
            block.compute_ns for block in (blocks.embedding, blocks.layer, blocks.head)
        )
        key = (pipeline, chunks, first, layer, last)
        if given is None and key in self._busiest:
            return self._busiest[key]
        extras = [0] * pipeline
        extras[0] += first
        extras[-1] += last
        if given is not None:
            return max(
                extra + layer * sum(given[device::pipeline]) for device, extra in enumerate(extras)
            )
        self._busiest[key] = least_busiest(self._model.layers, layer, extras, chunks)
        return self._busiest[key]

    def states_bytes(self, training: Training) -> int:
        """Model states of the rank with the most layers, at the least."""
        degrees = training.degrees
        alone = degrees.pipeline == 1
        shard = self._shard(degrees, ceil_div(self._model.layers, degrees.pipeline), alone, alone)
        return self._states.on_rank(shard, training.zero_stage, degrees)

    def may_hold(
        self, training: Training, limit_bytes: int, beside_bytes: Sequence[int] = ()
    ) -> bool:
        """Whether layers can lie so that the busiest device is no busier than it must be and no
        rank needs more than `limit_bytes`: of states and layers' activations, and by rank
        `beside_bytes`, which is the reserve if not given."""
        blocks, degrees, model = self.blocks(training), training.degrees, self._model
        pipeline, chunks = degrees.pipeline, training.interleaving or 1
        all_layers = self._shard(degrees, model.layers, False, False)
        of_layers = self._states.on_rank(all_layers, training.zero_stage, degrees)
        each = max(0, of_layers - ROUNDING_BYTES) / model.layers
        extra_bytes = self._extra_bytes(training)
        extra_ns = [0] * pipeline
        extra_ns[0] += blocks.embedding.compute_ns
        extra_ns[-1] += blocks.head.compute_ns
        layer = blocks.layer
        busiest = self.busiest_ns(training, blocks)
        held = 0
        for device in range(pipeline):
            at_once = chunks_in_flight(pipeline, chunks, training.micro_batches, device)
            if training.offload:
                at_once = min(at_once, RESIDENT)
            beside = beside_bytes[device] if beside_bytes else self._cluster.reserved_bytes
            room = limit_bytes - extra_bytes[device] - beside
            by_time = (busiest - extra_ns[device]) // max(1, layer.compute_ns)
            most = min(by_time, _most_layers(room, each, at_once * layer.activation_bytes, chunks))
            if most < chunks:
                return False
            held += most
        return held >= model.layers

    def least_offloaded_bytes(self, training: Training) -> int:
        """The fullest rank of a plan that needs offloads, at the least: they go chunk by chunk,
        until it fits."""
        blocks = self.blocks(training)
        layers = self.busiest_ns(training, blocks) // max(1, blocks.layer.compute_ns)
        chunk = layers * blocks.layer.activation_bytes + blocks.embedding.activation_bytes
        return self._cluster.memory_bytes - chunk

    def _extra_bytes(self, training: Training) -> list[int]:
        """States of embedding and head by device."""
        degrees, stage = training.degrees, training.zero_stage
        extra = [0] * degrees.pipeline
        alone = degrees.pipeline == 1
        for device, first, last in ((0, True, alone), (-1, alone, True)):
            with_end = self._states.on_rank(self._shard(degrees, 0, first, last), stage, degrees)
            extra[device] = max(0, with_end - ROUNDING_BYTES)
        return extra

    def _shard(self, degrees: Degrees, layers: int, first: bool, last: bool) -> Shard:
        """Parameters of a rank with so many layers, embedding and head."""
        tensor = degrees.tensor
        key = (tensor, degrees.expert, layers, first, last)
        if key not in self._shards:
            shard = layer_shard(self._model, tensor, degrees.expert).times(layers)
            if first:
                shard += Shard(embedding_shard(self._model, tensor))
            if last:
                shard += Shard(head_shard(self._model, tensor, shares_embedding=first))
            self._shards[key] = shard
        return self._shards[key]

    def _epilogue_ns(
        self, degrees: Degrees, stage: int, layers: int, first: bool, last: bool
    ) -> int:
        """Without the reduction of a tied embedding."""
        where = (degrees.tensor, degrees.expert, degrees.replicas)
        key = (*where, stage, layers, first, last)
        if key not in self._epilogues:
            shard = self._shard(degrees, layers, first, last)
            if where not in self._routes:
                self._routes[where] = StateRoutes.of(degrees, self._cluster)
            seconds = times.gradient_reduction_s(shard, self._states, stage, self._routes[where])
            seconds += times.optimizer_s(shard, self._states, stage, degrees, self._cluster)
            self._epilogues[key] = times.whole_us_ns(seconds)
        return self._epilogues[key]

    def _hops_ns(self, training: Training, chunks: int) -> int:
        """All transfers of one micro-batch between stages, both ways."""
        degrees = training.degrees
        if degrees.pipeline == 1:
            return 0
        key = (degrees, chunks, training.micro_batch_size)
        if key not in self._hops_took_ns:
            between, around = self._tiers(degrees)
            size = boundary_bytes(self._model, activation_shape(training))
            hops = chunks * between + (chunks - 1) * [around]
            self._hops_took_ns[key] = 2 * sum(
                count * times.whole_us_ns(tier_route(self._cluster, tier).transfer_s(size))
                for tier, count in Counter(hops).items()
            )
        return self._hops_took_ns[key]

    def _tiers(self, degrees: Degrees) -> tuple[list[Tier], Tier]:
        """What connects each pipeline rank with the next, and the last one with the first."""
        if degrees not in self._hops:
            last, cluster = degrees.pipeline - 1, self._cluster
            between = [rank_tier(cluster, degrees, rank, rank + 1) for rank in range(last)]
            self._hops[degrees] = between, rank_tier(cluster, degrees, last, 0)
        return self._hops[degrees]


ROUNDING_BYTES = 6
"""ZeRO rounds each kind of state up, of experts and the rest."""


def chunks_in_flight(pipeline: int, chunks: int, micro_batches: int, device: int) -> int:
    """Chunks of activations that 1F1B holds on a device at once: p - r micro-batches, interleaved
    2 (p - r - 1) + (v - 1) p + 1 chunks (Narayanan et al. 2021; Megatron-LM), at most all."""
    if chunks == 1:
        return min(micro_batches, pipeline - device)
    warm_up = 2 * (pipeline - device - 1) + (chunks - 1) * pipeline
    return min(micro_batches * chunks, warm_up + 1)


def least_busiest(layers: int, layer_ns: int, extras_ns: list[int], minimum: int) -> int:
    """The largest part's time in the division of layers that `partition_layers` makes: the least
    T in which the parts, each with its extra time and at least `minimum` layers, hold all."""
    layer = max(1, layer_ns)
    kinds = {extra: extras_ns.count(extra) for extra in extras_ns}
    total = layers * layer + sum(extras_ns)
    least = max(ceil_div(total, len(extras_ns)), max(extras_ns) + minimum * layer)
    while sum(n * ((least - extra) // layer) for extra, n in kinds.items()) < layers:
        least = min(extra + ((least - extra) // layer + 1) * layer for extra in kinds)
    return least


def _most_layers(room: float, each: float, of_round: int, chunks: int) -> int:
    """The most layers with `each` bytes of states in `room`, if a layer in every chunk has
    `of_round` bytes of activations, and layers beyond whole rounds have none."""
    rounds = int(room / (each * chunks + of_round)) if room > 0 else 0
    rest = room - rounds * (each * chunks + of_round)
    return rounds * chunks + min(chunks - 1, int(rest / each))
