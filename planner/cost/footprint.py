"""What each pipeline rank holds in device memory at its fullest moment, under 1F1B.

Sources: Korthikanti et al. 2022 (arXiv 2205.05198) for activations and how many micro-batches are
in flight, Narayanan et al. 2021 (arXiv 2104.04473) and Megatron-LM for the order of forwards and
backwards, Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054) for model states. Sizes are bytes on
one GPU. Nothing is offloaded, and the backward is one operation.

A rank is fullest after a forward in the steady state. What it keeps then does not shrink until the
next backward has ended, and on top of it comes the larger of two things: at the last layer the loss
with its logits; anywhere a layer's backward, with what it rebuilds and its gradients. The two never
meet, as the logits are gone before a layer's backward begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.cost.blocks import activation_shape, training_state_bytes
from planner.cost.build import CostModel
from planner.cost.in_flight import chunks_held
from planner.cost.memory import (
    ActivationShape,
    attention_core_bytes,
    ceil_div,
    layer_activation_bytes,
    layer_input_bytes,
    logits_copy_bytes,
)
from planner.cost.model import Model
from planner.cost.parameters import Shard, layer_shard, word_embedding_shard
from planner.cost.placement import interleaved
from planner.cost.training import Recomputation


@dataclass(frozen=True, slots=True)
class CommunicationBuffers:
    """What is allocated for communication beside parameters, gradients and activations.

    `pipeline_bytes`: activations and gradients on their way between ranks. `sequence_bytes`: whole
    sequences that sequence parallelism gathers. `context_bytes`: keys, values and their gradients
    of other context ranks. `expert_bytes`: tokens on their way to experts. `gradient_bytes`: whole
    gradients before ZeRO stages 2 and 3 scatter them.
    """

    pipeline_bytes: int
    sequence_bytes: int
    context_bytes: int
    expert_bytes: int
    gradient_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of them: they live at the same time or are kept once allocated."""
        return (
            self.pipeline_bytes
            + self.sequence_bytes
            + self.context_bytes
            + self.expert_bytes
            + self.gradient_bytes
        )


@dataclass(frozen=True, slots=True)
class RankFootprint:
    """The parts of a pipeline rank's memory, in bytes on each of its GPUs.

    `activations_bytes` is of transformer layers alone. `held` has the micro-batches in flight of
    each chunk. `logits_bytes` and `workspace_bytes` are held at different moments, so that only the
    larger counts.
    """

    rank: int
    layers: int
    parameters: int
    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    gathered_parameters_bytes: int
    held: tuple[int, ...]
    activations_bytes: int
    embedding_activations_bytes: int
    logits_bytes: int
    workspace_bytes: int
    communication: CommunicationBuffers
    reserved_bytes: int
    limit_bytes: int

    @property
    def chunks_in_flight(self) -> int:
        """Pairs of chunk and micro-batch whose activations are held."""
        return sum(self.held)

    @property
    def micro_batches_in_flight(self) -> float:
        """The same in micro-batches of the whole rank."""
        return sum(self.held) / len(self.held)

    @property
    def static_bytes(self) -> int:
        """Parameters, gradients and optimizer states: what stays from step to step."""
        return self.parameters_bytes + self.gradients_bytes + self.optimizer_bytes

    @property
    def peak_is_loss(self) -> bool:
        """Whether the fullest moment is the loss, else it is a layer's backward."""
        return self.logits_bytes > self.workspace_bytes

    @property
    def peak_allocated_bytes(self) -> int:
        """The most that the framework allocates at one time."""
        return (
            self.static_bytes
            + self.gathered_parameters_bytes
            + self.activations_bytes
            + self.embedding_activations_bytes
            + max(self.logits_bytes, self.workspace_bytes)
            + self.communication.total_bytes
        )

    @property
    def total_bytes(self) -> int:
        """The same with what is reserved beside it."""
        return self.peak_allocated_bytes + self.reserved_bytes

    @property
    def headroom_bytes(self) -> int:
        """What is left; negative where the rank does not fit."""
        return self.limit_bytes - self.total_bytes


def footprints(
    costs: CostModel, chunks: int, layers_per_stage: Sequence[int]
) -> tuple[RankFootprint, ...]:
    """Each pipeline rank, with `chunks` chunks of layers; stage s lies on rank s mod p."""
    training, model, blocks = costs.training, costs.model, costs.blocks
    pipeline = training.degrees.pipeline
    shape = activation_shape(training)
    workspace_bytes = _workspace_bytes(costs, shape)
    logits_bytes = blocks.head.activation_bytes + logits_copy_bytes(model, shape)
    states = _States(costs, chunks)

    def footprint(rank: int) -> RankFootprint:
        own = tuple(layers_per_stage[rank::pipeline])
        held = chunks_held(pipeline, rank, training.micro_batches, own)
        kept = sum(count * micro_batches for count, micro_batches in zip(own, held, strict=True))
        shard = states.shard(rank, sum(own))
        parameters_bytes, gradients_bytes, optimizer_bytes = states.by_kind(shard)
        gathered_bytes, whole_gradient_bytes = states.unsplit(rank)
        return RankFootprint(
            rank=rank,
            layers=sum(own),
            parameters=shard.total,
            parameters_bytes=parameters_bytes,
            gradients_bytes=gradients_bytes,
            optimizer_bytes=optimizer_bytes,
            gathered_parameters_bytes=gathered_bytes,
            held=held,
            activations_bytes=kept * blocks.layer.activation_bytes,
            embedding_activations_bytes=held[0] * blocks.embedding.activation_bytes
            if rank == 0
            else 0,
            logits_bytes=logits_bytes if rank == pipeline - 1 else 0,
            workspace_bytes=workspace_bytes,
            communication=_communication(costs, shape, rank, chunks, whole_gradient_bytes),
            reserved_bytes=costs.cluster.reserved_bytes,
            limit_bytes=_limit_bytes(costs, shard),
        )

    return tuple(footprint(rank) for rank in range(pipeline))


def layer_workspace_bytes(
    model: Model, shape: ActivationShape, recomputation: Recomputation
) -> int:
    """The most that one layer's backward takes on top of what is kept of the layer: what it
    rebuilds and gradients, less what it has freed by then.

    Followed tensor by tensor from the layer's end. In the feed-forward there are the gradients of
    the residual stream and of the inner activation, after it (where gated) that of gate and up in
    place of the product. Once it is done its activations are gone; then the attention has those of
    queries, keys, values and output, and of the scores unless flash attention keeps them on chip.
    Full recomputation has rebuilt the whole layer before, selective the scores at the attention.
    """
    element, hidden = shape.element_bytes, model.hidden_size
    chosen = model.experts_per_token if model.has_router else 0
    width = shape.expert_width(model)
    stream = element * hidden
    feed_forward = shape.bytes_of(
        stream * (1 + chosen), element * width * (2 if model.gated else 1)
    )
    freed = shape.bytes_of(2 * stream, element * width * (3 if model.gated else 2))
    in_heads = 2 * model.query_size + 2 * model.key_value_size
    if not shape.flash_attention:
        in_heads += shape.sequence * model.heads
    attention = shape.bytes_of(stream, element * in_heads) - freed
    if recomputation is Recomputation.FULL:
        rebuilt = layer_activation_bytes(model, shape) - layer_input_bytes(model, shape)
        return rebuilt + max(feed_forward, attention)
    if recomputation is Recomputation.SELECTIVE and not shape.flash_attention:
        attention += attention_core_bytes(model, shape)
    return max(feed_forward, attention)


def _workspace_bytes(costs: CostModel, shape: ActivationShape) -> int:
    measured = costs.training.profile.layer.backward_workspace_bytes
    if measured is not None:
        return measured
    return layer_workspace_bytes(costs.model, shape, costs.training.recomputation)


class _States:
    """Model states by what a rank has: few ranks of a pipeline differ in it."""

    def __init__(self, costs: CostModel, chunks: int) -> None:
        training = costs.training
        self._costs = costs
        self._placement = interleaved(training.degrees.pipeline, chunks)
        self._bytes = training_state_bytes(training)
        self._shards: dict[tuple[int, bool, bool], Shard] = {}

    def shard(self, rank: int, layers: int) -> Shard:
        """Parameters of a rank with so many layers."""
        last = self._placement.devices - 1
        key = (layers, rank == 0, rank == last)
        if key not in self._shards:
            self._shards[key] = self._costs.parameters_of(self._placement, rank, layers)
        return self._shards[key]

    def by_kind(self, shard: Shard) -> tuple[int, int, int]:
        """Bytes of parameters, gradients and optimizer states."""
        training = self._costs.training
        return self._bytes.by_kind(shard, training.zero_stage, training.degrees)

    def unsplit(self, rank: int) -> tuple[int, int]:
        """Bytes of parameters that ZeRO stage 3 has gathered at one time, and of gradients that
        stages 2 and 3 have not scattered yet: those of one layer, of the embedding or of the output
        layer, whichever is largest on the rank."""
        degrees, stage = self._costs.training.degrees, self._costs.training.zero_stage
        if degrees.replicas == 1 or stage < 2:
            return 0, 0
        model = self._costs.model
        layer = layer_shard(model, degrees.tensor, degrees.expert)
        split = layer.dense + (layer.expert if degrees.expert_replicas > 1 else 0)
        if rank in (0, self._placement.devices - 1):
            split = max(split, word_embedding_shard(model, degrees.tensor))
        return split * self._bytes.parameter * (stage == 3), split * self._bytes.gradient


def _communication(
    costs: CostModel, shape: ActivationShape, rank: int, chunks: int, gradient_bytes: int
) -> CommunicationBuffers:
    """Pipeline: what goes to the next rank, its gradient coming back, and the gradient that goes to
    the rank before; what comes from there is the first layer's input and counted with it. With
    several chunks every rank has all three, and the next input arrives ahead (Megatron-LM's
    overlapped sends). Sequence: input and output gradient of a linear layer, gathered for its
    backward. Context: the block of keys and values at work and the next, with their gradients.
    Experts: each token once per expert chosen, before it is sent."""
    model, degrees = costs.model, costs.training.degrees
    boundary, element = layer_input_bytes(model, shape), shape.element_bytes
    if degrees.pipeline == 1:
        passing = 0
    elif chunks > 1:
        passing = 4
    else:
        passing = 2 * (rank < degrees.pipeline - 1) + (rank > 0)
    whole = shape.tokens * model.hidden_size * element
    key_values = ceil_div(2 * shape.tokens * model.key_value_size * element, degrees.tensor)
    dispatched = shape.bytes_of(model.experts_per_token * model.hidden_size * element, 0)
    return CommunicationBuffers(
        pipeline_bytes=passing * boundary,
        sequence_bytes=2 * whole if shape.sequence_parallel else 0,
        context_bytes=4 * key_values if degrees.context > 1 else 0,
        expert_bytes=dispatched if degrees.expert > 1 else 0,
        gradient_bytes=gradient_bytes,
    )


def _limit_bytes(costs: CostModel, shard: Shard) -> int:
    """The GPU's memory; where what is left for activations was measured, that and the rest."""
    measured = costs.training.profile.activation_memory_bytes
    if measured is None:
        return costs.cluster.memory_bytes
    return costs.static_bytes(shard) + measured + costs.cluster.reserved_bytes
