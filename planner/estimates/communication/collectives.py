"""What each kind of group sends in one training step: how often, how much, and for how long.

Sizes and times are those of the cost model: tensor-parallel collectives after Megatron-LM and
Korthikanti et al. 2022 (arXiv 2205.05198), ZeRO after Rajbhandari et al. 2020 (arXiv 1910.02054),
keys and values of ring attention after Liu et al. 2023 (arXiv 2310.01889), bytes on the links after
NVIDIA's nccl-tests. Everything is counted for one GPU of the pipeline rank that sends most of the
kind, and takes its own time, whether computation hides it or not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from planner.cost.blocks import activation_shape, training_state_bytes
from planner.cost.build import CostModel
from planner.cost.memory import boundary_bytes, ceil_div
from planner.cost.parameters import layer_shard, word_embedding_shard
from planner.cost.placement import Placement, interleaved
from planner.cost.routes import (
    TIERS,
    Tier,
    all_to_all_s,
    neighbour_tier,
    ring_route,
    tier_between,
    tier_route,
)
from planner.cost.training import Recomputation
from planner.estimates.communication.groups import Groups, Kind, RankOrder
from planner.estimates.communication.tiers import all_to_all_tier, ring_tier


class Operation(StrEnum):
    """NCCL's name of what is called."""

    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    SEND_RECEIVE = "send_receive"


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective of a group of `ranks`.

    `size` is the array in bytes as nccl-tests count it: all of it for an all-gather or a
    reduce-scatter, a rank's own for the others. `per_micro_batch` and `per_step` are calls of one
    GPU; what is called once per step has no calls per micro-batch. `seconds` is one call, and
    `tier` the part of the way that sets its rate.
    """

    kind: Kind
    operation: Operation
    what: str
    ranks: int
    size: int
    per_micro_batch: int
    per_step: int
    seconds: float
    tier: Tier

    @property
    def sent_bytes(self) -> int:
        """What one GPU sends in one call: 2 (n-1)/n, (n-1)/n or all of the array."""
        if self.operation is Operation.SEND_RECEIVE:
            return self.size
        times = 2 if self.operation is Operation.ALL_REDUCE else 1
        return ceil_div(times * (self.ranks - 1) * self.size, self.ranks)

    @property
    def step_s(self) -> float:
        """All calls of a step."""
        return self.per_step * self.seconds


def collectives_of(costs: CostModel, order: RankOrder) -> list[Collective]:
    """Everything that is sent in one step under an order of ranks, group by group."""
    counted = _Counted(costs, order, order.groups(tied_embeddings=costs.model.tied_embeddings))
    return [
        *counted.tensor(),
        *counted.context(),
        *counted.expert(),
        *counted.states(),
        *counted.pipeline(),
        *counted.embedding(),
    ]


def reduction_kind(groups: dict[Kind, Groups], *, experts: bool) -> Kind | None:
    """The groups that add up gradients of experts or of all else, None where no two ranks hold the
    same parameters."""
    if experts and Kind.EXPERT in groups:
        return Kind.EXPERT_DATA if Kind.EXPERT_DATA in groups else None
    kinds = (Kind.DATA_CONTEXT, Kind.DATA, Kind.CONTEXT)
    return next((kind for kind in kinds if kind in groups), None)


@dataclass(frozen=True, slots=True)
class _Counted:
    costs: CostModel
    order: RankOrder
    groups: dict[Kind, Groups]

    @property
    def _placement(self) -> Placement:
        training = self.costs.training
        return interleaved(training.degrees.pipeline, training.interleaving or 1)

    def _most_layers(self) -> int:
        """Layers of the pipeline rank that has most."""
        placement = self._placement
        layers = self.costs.layers_per_stage(placement)
        devices = range(placement.devices)
        return max(sum(layers[s] for s in placement.stages_of(d)) for d in devices)

    def _passes(self, forward: int, backward: int) -> int:
        """Calls per micro-batch from those of one layer's forward and backward, which runs the
        forward again under full recomputation."""
        again = self.costs.training.recomputation is Recomputation.FULL
        return self._most_layers() * (forward * (2 if again else 1) + backward)

    def _call(
        self, kind: Kind, operation: Operation, what: str, size: int, per_micro_batch: int
    ) -> Collective:
        """Repeated for each micro-batch, or done once in a step where `per_micro_batch` is 0."""
        group, cluster = self.groups[kind].route_group(), self.costs.cluster
        if operation is Operation.ALL_TO_ALL:
            seconds, tier = (
                all_to_all_s(cluster, group, size),
                all_to_all_tier(cluster, group, size),
            )
        elif operation is Operation.SEND_RECEIVE:
            tier = neighbour_tier(cluster, group)
            seconds = tier_route(cluster, tier).transfer_s(size)
        else:
            route, tier = ring_route(cluster, group), ring_tier(cluster, group)
            reduces = operation is Operation.ALL_REDUCE
            seconds = (route.all_reduce_s if reduces else route.gather_s)(size, group.ranks)
        return Collective(
            kind=kind,
            operation=operation,
            what=what,
            ranks=group.ranks,
            size=size,
            per_micro_batch=per_micro_batch,
            per_step=per_micro_batch * self.costs.training.micro_batches or 1,
            seconds=seconds,
            tier=tier,
        )

    def tensor(self) -> list[Collective]:
        """Two all-reduces of a layer's output in each direction, or as many pairs of all-gather
        and reduce-scatter."""
        if Kind.TENSOR not in self.groups:
            return []
        model, shape = self.costs.model, activation_shape(self.costs.training)
        size = shape.tokens * model.hidden_size * shape.element_bytes
        operations = [Operation.ALL_REDUCE]
        if shape.sequence_parallel:
            operations = [Operation.ALL_GATHER, Operation.REDUCE_SCATTER]
        return [
            self._call(
                Kind.TENSOR,
                operation,
                "activations and their gradients, around attention and feed-forward of each layer",
                size,
                self._passes(2, 2),
            )
            for operation in operations
        ]

    def context(self) -> list[Collective]:
        """Keys and values round the ring of context ranks; back with their gradients."""
        if Kind.CONTEXT not in self.groups:
            return []
        model, shape = self.costs.model, activation_shape(self.costs.training)
        degrees = self.costs.training.degrees
        key_values = 2 * shape.tokens * model.key_value_size * shape.element_bytes
        steps = degrees.context - 1
        return [
            self._call(
                Kind.CONTEXT,
                Operation.SEND_RECEIVE,
                "keys and values to the next context rank while attention works on others; in the "
                "backward their gradients too",
                key_values // degrees.tensor,
                self._passes(steps, 2 * steps),
            )
        ]

    def expert(self) -> list[Collective]:
        """Tokens to their experts and the outputs back, in both directions."""
        if Kind.EXPERT not in self.groups:
            return []
        model, shape = self.costs.model, activation_shape(self.costs.training)
        token_bytes = shape.tokens * model.hidden_size * shape.element_bytes
        return [
            self._call(
                Kind.EXPERT,
                Operation.ALL_TO_ALL,
                "tokens to the experts chosen for them and back, and their gradients",
                model.experts_per_token * token_bytes // shape.unsplit_ranks,
                self._passes(2, 2),
            )
        ]

    def states(self) -> list[Collective]:
        """Gradients added up and parameters gathered, as the ZeRO stage has it."""
        costs, degrees = self.costs, self.costs.training.degrees
        placement = self._placement
        layers = costs.layers_per_stage(placement)
        shards = [
            costs.parameters_of(placement, d, sum(layers[s] for s in placement.stages_of(d)))
            for d in range(placement.devices)
        ]
        whole = max(shards, key=lambda shard: shard.total)
        layer = layer_shard(costs.model, degrees.tensor, degrees.expert)
        found = []
        for experts, of_rank, of_layer in (
            (False, whole.dense, layer.dense),
            (True, whole.expert, layer.expert),
        ):
            kind = reduction_kind(self.groups, experts=experts)
            if kind is not None and of_rank:
                whose = " of the experts" if experts else ""
                if not experts and whole.expert:
                    whose = " of all but the experts"
                found += self._states_of(kind, whose, of_rank, of_layer)
        return found

    def _states_of(self, kind: Kind, whose: str, of_rank: int, of_layer: int) -> list[Collective]:
        states, stage = training_state_bytes(self.costs.training), self.costs.training.zero_stage
        gradients, weights = f"gradients{whose}", f"parameters{whose}"
        if stage == 0:
            return [self._call(kind, Operation.ALL_REDUCE, gradients, of_rank * states.gradient, 0)]
        gather, scatter = Operation.ALL_GATHER, Operation.REDUCE_SCATTER
        found = []
        if stage == 1:
            found.append(self._call(kind, scatter, gradients, of_rank * states.gradient, 0))
        if stage <= 2:
            found.append(self._call(kind, gather, weights, of_rank * states.parameter, 0))
        layers = self._most_layers()
        by_layer = f"{whose}, layer by layer"
        if stage >= 2:
            size = of_layer * states.gradient
            found.append(self._call(kind, scatter, f"gradients{by_layer}", size, layers))
        if stage == 3:
            size = of_layer * states.parameter
            found.append(self._call(kind, gather, f"parameters{by_layer}", size, 2 * layers))
        return found

    def pipeline(self) -> list[Collective]:
        """What the pipeline rank sends whose transfers take longest: activations to the next
        stage, gradients to the one before."""
        if Kind.PIPELINE not in self.groups:
            return []
        training, cluster = self.costs.training, self.costs.cluster
        size = boundary_bytes(self.costs.model, activation_shape(training))
        stages = self._placement.device_of_stage
        boundaries = list(pairwise(stages))
        tiers = {boundary: self._hop_tier(*boundary) for boundary in set(boundaries)}
        hops: list[Counter[Tier]] = [Counter() for _ in range(training.degrees.pipeline)]
        for boundary in boundaries:
            for device in boundary:
                hops[device][tiers[boundary]] += 1

        def seconds(tier: Tier) -> float:
            return tier_route(cluster, tier).transfer_s(size)

        busiest = max(hops, key=lambda own: sum(own[tier] * seconds(tier) for tier in TIERS))
        return [
            Collective(
                kind=Kind.PIPELINE,
                operation=Operation.SEND_RECEIVE,
                what="activations to the next stage and gradients to the one before",
                ranks=training.degrees.pipeline,
                size=size,
                per_micro_batch=busiest[tier],
                per_step=busiest[tier] * training.micro_batches,
                seconds=seconds(tier),
                tier=tier,
            )
            for tier in TIERS
            if busiest[tier]
        ]

    def embedding(self) -> list[Collective]:
        """Gradients of the tied word embedding, which the first and the last stage hold."""
        if Kind.EMBEDDING not in self.groups:
            return []
        degrees = self.costs.training.degrees
        tier = self._hop_tier(0, degrees.pipeline - 1)
        gradient = training_state_bytes(self.costs.training).gradient
        size = word_embedding_shard(self.costs.model, degrees.tensor) * gradient
        return [
            Collective(
                kind=Kind.EMBEDDING,
                operation=Operation.ALL_REDUCE,
                what="gradients of the tied word embedding",
                ranks=2,
                size=size,
                per_micro_batch=0,
                per_step=1,
                seconds=tier_route(self.costs.cluster, tier).all_reduce_s(size, 2),
                tier=tier,
            )
        ]

    def _hop_tier(self, left: int, right: int) -> Tier:
        """The widest tier that any GPU of a pipeline rank crosses to its counterpart of another."""
        stride, cluster = self.order.pipeline_stride(), self.costs.cluster
        low, high = sorted((left * stride, right * stride))
        firsts = self.groups[Kind.PIPELINE].first_ranks()
        places = {(first + low) % cluster.gpus_per_rack for first in firsts}
        return max(
            (tier_between(cluster, place, place + high - low) for place in places),
            key=TIERS.index,
        )
