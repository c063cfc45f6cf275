"""Costs of the three kinds of block (embedding, layer, head) of one micro-batch on one GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from planner.cost import memory, times
from planner.cost.hardware import Cluster
from planner.cost.links import HostLinks
from planner.cost.memory import ActivationShape, StateBytes
from planner.cost.model import Model
from planner.cost.parameters import layer_shard
from planner.cost.profile import BlockProfile
from planner.cost.times import Flops
from planner.cost.training import Recomputation, Training


@dataclass(frozen=True, slots=True)
class Block:
    """Times in ns and sizes in bytes, named as a stage's in the pipeline problem."""

    forward_ns: int = 0
    backward_input_ns: int = 0
    backward_weight_ns: int = 0
    activation_bytes: int = 0
    weight_grad_bytes: int = 0
    backward_workspace_bytes: int = 0
    offload_bytes: int = 0
    offload_ns: int = 0
    reload_ns: int = 0

    @property
    def compute_ns(self) -> int:
        """F + B + W."""
        return self.forward_ns + self.backward_input_ns + self.backward_weight_ns


def sum_blocks(blocks: Iterable[Block]) -> Block:
    """Blocks run one after another: all adds up but the workspace, which only one uses at once."""
    total = Block()
    for block in blocks:
        total = Block(
            forward_ns=total.forward_ns + block.forward_ns,
            backward_input_ns=total.backward_input_ns + block.backward_input_ns,
            backward_weight_ns=total.backward_weight_ns + block.backward_weight_ns,
            activation_bytes=total.activation_bytes + block.activation_bytes,
            weight_grad_bytes=total.weight_grad_bytes + block.weight_grad_bytes,
            backward_workspace_bytes=max(
                total.backward_workspace_bytes, block.backward_workspace_bytes
            ),
            offload_bytes=total.offload_bytes + block.offload_bytes,
            offload_ns=total.offload_ns + block.offload_ns,
            reload_ns=total.reload_ns + block.reload_ns,
        )
    return total


@dataclass(frozen=True, slots=True)
class Blocks:
    """The embedding before the first layer, one layer, and the final norm with the output layer."""

    embedding: Block
    layer: Block
    head: Block


def activation_shape(training: Training) -> ActivationShape:
    """What activation sizes depend on."""
    return ActivationShape(
        sequence=training.sequence,
        micro_batch_size=training.micro_batch_size,
        tensor_parallel=training.degrees.tensor,
        sequence_parallel=training.sequence_parallel,
        element_bytes=training.element_bytes,
        flash_attention=training.flash_attention,
    )


def training_state_bytes(training: Training) -> StateBytes:
    """Bytes per parameter of this training."""
    return memory.state_bytes(training.precision, training.gradient_precision, training.optimizer)


def data_parallel_route(training: Training, cluster: Cluster) -> times.Route:
    """Between the data-parallel ranks of a stage: the network as soon as one is on another node."""
    inside = cluster.gpus_per_node % training.degrees.gpus_per_rank == 0
    return times.link_route(cluster) if inside else times.network_route(cluster)


def build_blocks(model: Model, cluster: Cluster, training: Training, links: HostLinks) -> Blocks:
    """Costs of each kind of block by the formulas of `memory` and `times`, then the profile's."""
    blocks = Blocks(
        embedding=_embedding(model, cluster, training),
        layer=_layer(model, cluster, training),
        head=_head(model, cluster, training),
    )
    profile = training.profile
    route = times.host_route(cluster, links.sharers)

    def finished(block: Block, measured: BlockProfile, *, offloads: bool) -> Block:
        if not training.split_backward:
            block = _fused(block)
        block = replace(block, **measured.model_dump(exclude_none=True))
        if not training.offload:
            return replace(block, offload_bytes=0, offload_ns=0, reload_ns=0)
        if measured.offload_bytes is None:
            block = replace(block, offload_bytes=block.activation_bytes if offloads else 0)
        if not block.offload_bytes:
            return replace(block, offload_ns=0, reload_ns=0)
        transfer_ns = times.whole_us_ns(route.transfer_s(block.offload_bytes))
        return replace(
            block,
            offload_ns=transfer_ns if measured.offload_ns is None else measured.offload_ns,
            reload_ns=transfer_ns if measured.reload_ns is None else measured.reload_ns,
        )

    return Blocks(
        embedding=finished(blocks.embedding, profile.embedding, offloads=True),
        layer=finished(blocks.layer, profile.layer, offloads=True),
        # The head's backward follows its forward at once, so its activations never wait.
        head=finished(blocks.head, profile.head, offloads=False),
    )


def _fused(block: Block) -> Block:
    """Input and weight gradients in one operation, which frees everything at its end."""
    return replace(
        block,
        backward_input_ns=block.backward_input_ns + block.backward_weight_ns,
        backward_weight_ns=0,
        weight_grad_bytes=0,
    )


def _layer(model: Model, cluster: Cluster, training: Training) -> Block:
    """One layer. Selective recomputation repeats the attention scores in B; full recomputation
    keeps the layer's input only and repeats its whole forward in B, collectives included
    (Korthikanti et al., section 5). What is rebuilt is B's workspace, a layer at a time; what W
    needs of it stays until W."""
    shape = activation_shape(training)
    flops = times.layer_flops(model, shape)
    collectives = times.tensor_collectives_s(model, shape, cluster)
    gather, scatter = _zero_s(model, cluster, training)
    activation = memory.layer_activation_bytes(model, shape)
    weight_grad = memory.layer_weight_grad_bytes(model, shape)
    kept, repeated_flops, repeated_s = activation, 0, 0.0
    if training.recomputation is Recomputation.SELECTIVE and not training.flash_attention:
        kept = activation - memory.attention_core_bytes(model, shape)
        repeated_flops = flops.recomputable
    elif training.recomputation is Recomputation.FULL:
        kept = memory.layer_input_bytes(model, shape)
        repeated_flops, repeated_s = flops.forward, collectives
    rebuilt = activation - kept
    until_weight = max(0, weight_grad - kept) if training.split_backward else 0

    def seconds(count: int) -> float:
        return times.compute_s(count, cluster, training.precision)

    return Block(
        forward_ns=times.whole_us_ns(seconds(flops.forward) + collectives + gather),
        backward_input_ns=times.whole_us_ns(
            seconds(flops.backward_input + repeated_flops) + collectives + repeated_s + gather
        ),
        backward_weight_ns=times.whole_us_ns(seconds(flops.backward_weight) + scatter),
        activation_bytes=kept,
        weight_grad_bytes=weight_grad,
        backward_workspace_bytes=max(0, rebuilt - until_weight),
    )


def _zero_s(model: Model, cluster: Cluster, training: Training) -> tuple[float, float]:
    """What ZeRO adds to one layer: gathering parameters (F, B) and scattering gradients (W)."""
    states = training_state_bytes(training)
    route = data_parallel_route(training, cluster)
    degrees, stage = training.degrees, training.zero_stage
    parameters = layer_shard(model, degrees.tensor)
    return (
        times.parameter_gather_s(parameters, states, stage, degrees.data, route),
        times.micro_batch_reduction_s(parameters, states, stage, degrees.data, route),
    )


def _embedding(model: Model, cluster: Cluster, training: Training) -> Block:
    shape = activation_shape(training)
    lookup_ns = times.whole_us_ns(times.embedding_s(model, shape, cluster))
    return Block(
        forward_ns=lookup_ns,
        backward_weight_ns=lookup_ns,
        activation_bytes=memory.embedding_activation_bytes(model, shape),
        weight_grad_bytes=memory.embedding_weight_grad_bytes(model, shape),
    )


def _head(model: Model, cluster: Cluster, training: Training) -> Block:
    shape = activation_shape(training)
    flops: Flops = times.head_flops(model, shape)
    return Block(
        forward_ns=times.whole_us_ns(times.compute_s(flops.forward, cluster, training.precision)),
        backward_input_ns=times.whole_us_ns(
            times.compute_s(flops.backward_input, cluster, training.precision)
        ),
        backward_weight_ns=times.whole_us_ns(
            times.compute_s(flops.backward_weight, cluster, training.precision)
        ),
        activation_bytes=memory.head_activation_bytes(model, shape),
        weight_grad_bytes=memory.head_weight_grad_bytes(model, shape),
    )
