"""Time formulas: floating-point operations, collectives of a layer, and the optimizer step.

Sources: Narayanan et al. 2021 (arXiv 2104.04473) for FLOPs, Qi et al. 2024 (Zero Bubble, arXiv
2401.10241) for their split into F, B and W, Dao 2023 (FlashAttention-2, arXiv 2307.08691),
Korthikanti et al. 2022 (arXiv 2205.05198) for tensor-parallel collectives, Liu et al. 2023 (Ring
Attention, arXiv 2310.01889) for context parallelism. FLOPs are per GPU and micro-batch; durations
here are seconds as floating-point numbers, turned into whole microseconds where they leave the
cost model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.cost.degrees import Degrees
from planner.cost.hardware import Cluster
from planner.cost.memory import ActivationShape, StateBytes
from planner.cost.model import Model
from planner.cost.parameters import Shard, vocabulary_shard
from planner.cost.routes import Group, Route, all_to_all_s, neighbour_tier, ring_route, tier_route
from planner.documents import LARGEST_VALUE
from planner.errors import SpecError

NS_PER_US = 1_000


@dataclass(frozen=True, slots=True)
class Flops:
    """Of one micro-batch on one GPU. `scores` is the part of the forward that attention takes
    beside its linear layers."""

    forward: int
    backward_input: int
    backward_weight: int
    scores: int = 0


def layer_flops(model: Model, shape: ActivationShape) -> Flops:
    """One transformer layer.

    Linear layers take 2 FLOPs per weight and token forward, and as much again for each of input
    and weight gradients: for GPT 24 s b h^2 in each of F, B and W. Attention scores and their
    product with the values take 4 s^2 b h forward and twice that backward, all of it in B since
    no weights are involved (Zero Bubble, table 1). Flash attention skips the masked half of
    a decoder's scores and computes the scores again: half the forward, and 2.5 times its forward
    backward (FlashAttention-2, section 4.1).
    """
    linear_weights = model.hidden_size * (2 * model.query_size + 2 * model.key_value_size)
    matrices = 3 if model.gated else 2
    linear_weights += matrices * model.hidden_size * shape.expert_width(model)
    linear = 2 * shape.tokens * linear_weights // shape.tensor_parallel
    scores = 4 * shape.tokens * shape.sequence * model.query_size // shape.tensor_parallel
    if shape.flash_attention:
        if model.causal:
            scores //= 2
        return Flops(linear + scores, linear + 5 * scores // 2, linear, scores)
    return Flops(linear + scores, linear + 2 * scores, linear, scores)


def head_flops(model: Model, shape: ActivationShape) -> Flops:
    """Output layer: 2 s b h V in each of F, B and W (6 s b h V per iteration, Narayanan et al.)."""
    vocabulary = vocabulary_shard(model, shape.tensor_parallel)
    product = 2 * shape.tokens * model.hidden_size * vocabulary
    return Flops(product, product, product)


def compute_s(flops: int, cluster: Cluster, precision: str) -> float:
    """FLOPs at the stated share of the dense peak."""
    peak = cluster.gpu.peak_flop_per_s(precision)
    if peak is None:
        raise ValueError(f"{cluster.gpu.name} has no {precision} rate")
    return flops / (peak * cluster.efficiency.compute)


def moved_s(size: int, cluster: Cluster) -> float:
    """Bytes moved through device memory at the stated share of its peak rate."""
    return size / cluster.hbm_bytes_per_s


@dataclass(frozen=True, slots=True)
class LayerCollectives:
    """Seconds that one layer's forward and backward wait for other ranks, beside ZeRO."""

    forward_s: float
    backward_s: float


def layer_collectives(
    model: Model, shape: ActivationShape, degrees: Degrees, cluster: Cluster, attention_s: float
) -> LayerCollectives:
    """Of tensor, context and expert parallelism.

    Tensor: two all-reduces of the s b h activations in each direction (Megatron-LM); sequence
    parallelism replaces each by a reduce-scatter and an all-gather, which move as much (Korthikanti
    et al., section 4.2.2). Context: keys and values go round the ring in the forward, and with
    their gradients in the backward, while attention (`attention_s` in the forward, twice that in
    the backward) works on what is there; what takes longer than that is waited for. Expert: each
    token chosen is sent to its expert and its output back, in both directions.
    """
    token_bytes = shape.tokens * model.hidden_size * shape.element_bytes
    tensor = Group(degrees.tensor, 1)
    tensor_s = 2 * ring_route(cluster, tensor).all_reduce_s(token_bytes, degrees.tensor)
    key_values = 2 * shape.tokens * model.key_value_size * shape.element_bytes
    context = Group(degrees.context, degrees.tensor)
    ring = tier_route(cluster, neighbour_tier(cluster, context))
    passes = degrees.context - 1
    ring_s = passes * ring.transfer_s(key_values // degrees.tensor)
    hidden_s = attention_s * passes / degrees.context
    sent = model.experts_per_token * token_bytes // shape.unsplit_ranks
    experts = Group(degrees.expert, degrees.tensor)
    expert_s = 2 * all_to_all_s(cluster, experts, sent) if degrees.expert > 1 else 0.0
    return LayerCollectives(
        forward_s=tensor_s + max(0.0, ring_s - hidden_s) + expert_s,
        backward_s=tensor_s + max(0.0, 2 * ring_s - 2 * hidden_s) + expert_s,
    )


def embedding_s(model: Model, shape: ActivationShape, cluster: Cluster) -> float:
    """Looking up s b rows: each is read and written once in device memory."""
    return moved_s(2 * shape.tokens * model.hidden_size * shape.element_bytes, cluster)


def optimizer_s(
    shard: Shard, states: StateBytes, zero_stage: int, degrees: Degrees, cluster: Cluster
) -> float:
    """Optimizer step: it reads gradients, reads and writes optimizer states, and writes
    parameters, limited by device memory; ZeRO splits the work over the ranks that hold the same
    parameters."""
    per_parameter = states.gradient + 2 * states.optimizer + states.parameter
    return sum(
        moved_s(count * per_parameter, cluster) / (ranks if zero_stage >= 1 else 1)
        for count, ranks in (
            (shard.dense, degrees.replicas),
            (shard.expert, degrees.expert_replicas),
        )
    )


@dataclass(frozen=True, slots=True)
class StateRoutes:
    """Over which ranks, and on which route, gradients are added up and parameters gathered: those
    of experts over the ranks that hold the same experts."""

    dense: tuple[Route, int]
    expert: tuple[Route, int]

    @classmethod
    def of(cls, degrees: Degrees, cluster: Cluster) -> StateRoutes:
        """The groups of a pipeline rank's replicas."""
        dense = Group(degrees.replicas, degrees.tensor)
        expert = Group(degrees.expert_replicas, degrees.tensor * degrees.expert)
        return cls(
            (ring_route(cluster, dense), dense.ranks), (ring_route(cluster, expert), expert.ranks)
        )

    def gather_s(self, shard: Shard, each: int) -> float:
        """All-gather or reduce-scatter of `each` bytes per parameter."""
        return sum(
            route.gather_s(count * each, ranks)
            for count, (route, ranks) in ((shard.dense, self.dense), (shard.expert, self.expert))
            if count
        )


def gradient_reduction_s(
    shard: Shard, states: StateBytes, zero_stage: int, routes: StateRoutes
) -> float:
    """Once per iteration over the ranks that hold the same parameters.

    Without ZeRO an all-reduce of gradients; stage 1 a reduce-scatter of them and an all-gather of
    parameters. Stages 2 and 3 reduce in each micro-batch (`micro_batch_reduction_s`), so only
    stage 2's all-gather is left.
    """
    if zero_stage == 0:
        return 2 * routes.gather_s(shard, states.gradient)
    scatter = routes.gather_s(shard, states.gradient) if zero_stage == 1 else 0.0
    gather = routes.gather_s(shard, states.parameter) if zero_stage <= 2 else 0.0
    return scatter + gather


def parameter_gather_s(
    shard: Shard, states: StateBytes, zero_stage: int, routes: StateRoutes
) -> float:
    """ZeRO stage 3 gathers parameters before each forward and each backward."""
    return routes.gather_s(shard, states.parameter) if zero_stage == 3 else 0.0


def micro_batch_reduction_s(
    shard: Shard, states: StateBytes, zero_stage: int, routes: StateRoutes
) -> float:
    """ZeRO stages 2 and 3 scatter gradients after each micro-batch, as no rank keeps them all."""
    return routes.gather_s(shard, states.gradient) if zero_stage >= 2 else 0.0


def whole_us_ns(seconds: float) -> int:
    """Seconds as nanoseconds, rounded up to whole microseconds.

    The model is far less exact than that, and a coarse common divisor sharpens lower bounds.
    Raises `SpecError` for more than the formats can hold.
    """
    if seconds * 1e9 > LARGEST_VALUE:
        raise SpecError(
            ("model",), "leads to times or sizes above 2^53.", "Check its sizes and the rates."
        )
    return math.ceil(seconds * 1e6 - 1e-6) * NS_PER_US
