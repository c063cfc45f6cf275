"""Costs of the three kinds of block (embedding, layer, head) of one micro-batch on one GPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from planner.cost import memory, times
from planner.cost.hardware import Cluster
from planner.cost.links import HostLinks
from planner.cost.memory import ActivationShape, StateBytes
from planner.cost.model import Model
from planner.cost.offload.compression import Compression, Compressor
from planner.cost.parameters import layer_shard
from planner.cost.profile import BlockProfile
from planner.cost.routes import Route, host_route
from planner.cost.times import Flops, StateRoutes
from planner.cost.traffic import Traffic, head_traffic, layer_traffic
from planner.cost.training import Recomputation, Training


@dataclass(frozen=True, slots=True)
class Block:
    """Times in ns and sizes in bytes, named as a stage's in the pipeline problem.

    `exact_bytes` is the part of the activation that no lossy compression may touch: masks and
    token numbers. `host_bytes` is what the offloaded part takes in host memory.
    """

    forward_ns: int = 0
    backward_input_ns: int = 0
    backward_weight_ns: int = 0
    activation_bytes: int = 0
    weight_grad_bytes: int = 0
    backward_workspace_bytes: int = 0
    exact_bytes: int = 0
    offload_bytes: int = 0
    host_bytes: int = 0
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
            exact_bytes=total.exact_bytes + block.exact_bytes,
            offload_bytes=total.offload_bytes + block.offload_bytes,
            host_bytes=total.host_bytes + block.host_bytes,
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
        context_parallel=training.degrees.context,
        expert_load=training.expert_load if training.degrees.expert > 1 else 1.0,
    )


def training_state_bytes(training: Training) -> StateBytes:
    """Bytes per parameter of this training."""
    return memory.state_bytes(training.precision, training.gradient_precision, training.optimizer)


def build_blocks(model: Model, cluster: Cluster, training: Training, links: HostLinks) -> Blocks:
    """Costs of each kind of block by the formulas of `memory` and `times`, then the profile's."""
    blocks = Blocks(
        embedding=_embedding(model, cluster, training),
        layer=_layer(model, cluster, training),
        head=_head(model, cluster, training),
    )
    profile = training.profile

    def finished(block: Block, measured: BlockProfile, *, offloads: bool) -> Block:
        if not training.split_backward:
            block = _fused(block)
        block = replace(block, **measured.model_dump(exclude_none=True))
        if not training.offload:
            return replace(block, offload_bytes=0)
        if measured.offload_bytes is None:
            block = replace(block, offload_bytes=block.activation_bytes if offloads else 0)
        return block

    blocks = Blocks(
        embedding=finished(blocks.embedding, profile.embedding, offloads=True),
        layer=finished(blocks.layer, profile.layer, offloads=True),
        # The head's backward follows its forward at once, so its activations never wait.
        head=finished(blocks.head, profile.head, offloads=False),
    )
    as_it_is = Compressor(Compression.NONE, training.element_bytes)
    return offloading(blocks, training, host_route(cluster, links.sharers), as_it_is)


def offloading(blocks: Blocks, training: Training, route: Route, compressor: Compressor) -> Blocks:
    """The blocks with the offload times of a route, and their sizes in host memory.

    Compressing comes before the transfer, restoring after it, on the stream of the copies: it takes
    of the memory's rate, not of the computation. Measured times count as they are.
    """

    def on_route(block: Block, measured: BlockProfile) -> Block:
        if not block.offload_bytes:
            return replace(block, host_bytes=0, offload_ns=0, reload_ns=0)
        exact = min(block.exact_bytes, block.offload_bytes)
        elements, odd = divmod(block.offload_bytes - exact, compressor.element_bytes)
        host_bytes = exact + odd + compressor.moved_bytes(elements)
        transfer_s = route.transfer_s(host_bytes)

        def transfer_ns(through_memory: int, measured_ns: int | None) -> int:
            if measured_ns is not None:
                return measured_ns
            return times.whole_us_ns(transfer_s + through_memory / route.memory_bytes_per_s)

        return replace(
            block,
            host_bytes=host_bytes,
            offload_ns=transfer_ns(compressor.compress_bytes(elements), measured.offload_ns),
            reload_ns=transfer_ns(compressor.restore_bytes(elements), measured.reload_ns),
        )

    profile = training.profile
    return Blocks(
        embedding=on_route(blocks.embedding, profile.embedding),
        layer=on_route(blocks.layer, profile.layer),
        head=on_route(blocks.head, profile.head),
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
    flops, traffic = times.layer_flops(model, shape), layer_traffic(model, shape)
    passes = _passes(flops, traffic, cluster, training)
    scores_s = times.compute_s(flops.scores, cluster, training.precision)
    collectives = times.layer_collectives(model, shape, training.degrees, cluster, scores_s)
    gather_s, scatter_s = _zero_s(model, cluster, training)
    activation = memory.layer_activation_bytes(model, shape)
    weight_grad = memory.layer_weight_grad_bytes(model, shape)
    kept, repeated_s = activation, 0.0
    exact = memory.layer_mask_bytes(model, shape, with_scores=not training.flash_attention)
    if training.recomputation is Recomputation.SELECTIVE and not training.flash_attention:
        exact = memory.layer_mask_bytes(model, shape, with_scores=False)
        kept = activation - memory.attention_core_bytes(model, shape)
        repeated_s = scores_s + times.moved_s(traffic.recomputable, cluster)
    elif training.recomputation is Recomputation.FULL:
        kept, exact = memory.layer_input_bytes(model, shape), 0
        repeated_s = passes.forward_s + collectives.forward_s
    rebuilt = activation - kept
    until_weight = max(0, weight_grad - kept) if training.split_backward else 0
    return Block(
        forward_ns=times.whole_us_ns(passes.forward_s + collectives.forward_s + gather_s),
        backward_input_ns=times.whole_us_ns(
            passes.backward_input_s + collectives.backward_s + repeated_s + gather_s
        ),
        backward_weight_ns=times.whole_us_ns(passes.backward_weight_s + scatter_s),
        activation_bytes=kept,
        weight_grad_bytes=weight_grad,
        backward_workspace_bytes=max(0, rebuilt - until_weight),
        exact_bytes=exact,
    )


@dataclass(frozen=True, slots=True)
class _Passes:
    """Seconds of a block's own work: matrix products, then what moves through memory."""

    forward_s: float
    backward_input_s: float
    backward_weight_s: float


def _passes(flops: Flops, traffic: Traffic, cluster: Cluster, training: Training) -> _Passes:
    def seconds(count: int, moved_bytes: int) -> float:
        compute_s = times.compute_s(count, cluster, training.precision)
        return compute_s + times.moved_s(moved_bytes, cluster)

    return _Passes(
        seconds(flops.forward, traffic.forward),
        seconds(flops.backward_input, traffic.backward),
        seconds(flops.backward_weight, 0),
    )


def _zero_s(model: Model, cluster: Cluster, training: Training) -> tuple[float, float]:
    """What ZeRO adds to one layer: gathering parameters (F, B) and scattering gradients (W)."""
    states, degrees = training_state_bytes(training), training.degrees
    routes, stage = StateRoutes.of(degrees, cluster), training.zero_stage
    shard = layer_shard(model, degrees.tensor, degrees.expert)
    return (
        times.parameter_gather_s(shard, states, stage, routes),
        times.micro_batch_reduction_s(shard, states, stage, routes),
    )


def _embedding(model: Model, cluster: Cluster, training: Training) -> Block:
    shape = activation_shape(training)
    lookup_ns = times.whole_us_ns(times.embedding_s(model, shape, cluster))
    return Block(
        forward_ns=lookup_ns,
        backward_weight_ns=lookup_ns,
        activation_bytes=memory.embedding_activation_bytes(model, shape),
        exact_bytes=memory.embedding_exact_bytes(model, shape),
        weight_grad_bytes=memory.embedding_weight_grad_bytes(model, shape),
    )


def _head(model: Model, cluster: Cluster, training: Training) -> Block:
    shape = activation_shape(training)
    passes = _passes(times.head_flops(model, shape), head_traffic(model, shape), cluster, training)
    return Block(
        forward_ns=times.whole_us_ns(passes.forward_s),
        backward_input_ns=times.whole_us_ns(passes.backward_input_s),
        backward_weight_ns=times.whole_us_ns(passes.backward_weight_s),
        activation_bytes=memory.head_activation_bytes(model, shape),
        backward_workspace_bytes=memory.logits_copy_bytes(model, shape),
        weight_grad_bytes=memory.head_weight_grad_bytes(model, shape),
    )
