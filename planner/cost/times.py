"""Time formulas: floating-point operations, collectives, transfers and the optimizer step.

Sources: Narayanan et al. 2021 (arXiv 2104.04473) for FLOPs, Qi et al. 2024 (Zero Bubble, arXiv
2401.10241) for their split into F, B and W, Dao 2023 (FlashAttention-2, arXiv 2307.08691),
Korthikanti et al. 2022 (arXiv 2205.05198) for tensor-parallel collectives, and NVIDIA's
nccl-tests for the bytes a ring moves. FLOPs are per GPU and micro-batch; durations here are
seconds as floating-point numbers, turned into whole microseconds where they leave the cost model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.cost.hardware import Cluster
from planner.cost.memory import ActivationShape, StateBytes
from planner.cost.model import Model
from planner.cost.parameters import vocabulary_shard

NS_PER_US = 1_000


@dataclass(frozen=True, slots=True)
class Flops:
    """Of one micro-batch on one GPU. `recomputable` is the part of the forward that selective
    recomputation repeats."""

    forward: int
    backward_input: int
    backward_weight: int
    recomputable: int = 0


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
    linear_weights += model.experts_per_token * matrices * model.hidden_size * model.ffn_hidden_size
    linear = 2 * shape.tokens * linear_weights // shape.tensor_parallel
    scores = 4 * shape.tokens * shape.sequence * model.query_size // shape.tensor_parallel
    if shape.flash_attention:
        if model.causal:
            scores //= 2
        return Flops(linear + scores, linear + 5 * scores // 2, linear)
    return Flops(linear + scores, linear + 2 * scores, linear, recomputable=scores)


def head_flops(model: Model, shape: ActivationShape) -> Flops:
    """Output layer: 2 s b h V in each of F, B and W (6 s b h V per iteration, Narayanan et al.)."""
    vocabulary = vocabulary_shard(model, shape.tensor_parallel)
    product = 2 * shape.tokens * model.hidden_size * vocabulary
    return Flops(product, product, product)


@dataclass(frozen=True, slots=True)
class Route:
    """A path between GPUs: bytes per second in one direction, and latency."""

    bytes_per_s: float
    latency_s: float

    def transfer_s(self, size: int) -> float:
        """Latency plus size over bandwidth."""
        return self.latency_s + size / self.bytes_per_s

    def all_reduce_s(self, size: int, ranks: int) -> float:
        """Ring all-reduce of `size` bytes per rank: 2 (n-1)/n size / bandwidth (nccl-tests)."""
        return 2 * self.gather_s(size, ranks)

    def gather_s(self, size: int, ranks: int) -> float:
        """All-gather or reduce-scatter of `size` bytes in all: (n-1)/n size / bandwidth."""
        if ranks == 1:
            return 0.0
        return self.latency_s + (ranks - 1) / ranks * size / self.bytes_per_s


def link_route(cluster: Cluster) -> Route:
    """Between GPUs of one node."""
    return Route(cluster.link_bytes_per_s, cluster.link_latency_ns / 1e9)


def network_route(cluster: Cluster) -> Route:
    """Between GPUs of different nodes."""
    return Route(cluster.network_bytes_per_s, cluster.network_latency_ns / 1e9)


def host_route(cluster: Cluster, sharers: int) -> Route:
    """Between a GPU and host memory while `sharers` GPUs use the same path at once."""
    return Route(cluster.host_bytes_per_s / sharers, cluster.link_latency_ns / 1e9)


def compute_s(flops: int, cluster: Cluster, precision: str) -> float:
    """FLOPs at the stated share of the dense peak."""
    peak = cluster.gpu.peak_flop_per_s(precision)
    if peak is None:
        raise ValueError(f"{cluster.gpu.name} has no {precision} rate")
    return flops / (peak * cluster.efficiency.compute)


def tensor_collectives_s(model: Model, shape: ActivationShape, cluster: Cluster) -> float:
    """Collectives of one layer's forward, and as much again of its backward.

    Two all-reduces of the s b h activations (Megatron-LM); sequence parallelism replaces each by
    a reduce-scatter and an all-gather, which move as much (Korthikanti et al., section 4.2.2).
    """
    size = shape.tokens * model.hidden_size * shape.element_bytes
    return 2 * link_route(cluster).all_reduce_s(size, shape.tensor_parallel)


def embedding_s(model: Model, shape: ActivationShape, cluster: Cluster) -> float:
    """Looking up s b rows: each is read and written once in device memory."""
    size = 2 * shape.tokens * model.hidden_size * shape.element_bytes
    return size / (cluster.gpu.hbm_bytes_per_s * cluster.efficiency.hbm)


def optimizer_s(
    parameters: int, states: StateBytes, zero_stage: int, data_parallel: int, cluster: Cluster
) -> float:
    """Optimizer step: it reads gradients, reads and writes optimizer states, and writes
    parameters, limited by device memory; ZeRO splits the work over data-parallel ranks."""
    per_parameter = states.gradient + 2 * states.optimizer + states.parameter
    share = data_parallel if zero_stage >= 1 else 1
    rate = cluster.gpu.hbm_bytes_per_s * cluster.efficiency.hbm
    return parameters * per_parameter / share / rate


def gradient_reduction_s(
    parameters: int, states: StateBytes, zero_stage: int, data_parallel: int, route: Route
) -> float:
    """Once per iteration over the data-parallel ranks.

    Without ZeRO an all-reduce of gradients; stage 1 a reduce-scatter of them and an all-gather of
    parameters. Stages 2 and 3 reduce in each micro-batch (`micro_batch_reduction_s`), so only
    stage 2's all-gather is left.
    """
    gradients, weights = parameters * states.gradient, parameters * states.parameter
    if zero_stage == 0:
        return route.all_reduce_s(gradients, data_parallel)
    scatter = route.gather_s(gradients, data_parallel) if zero_stage == 1 else 0.0
    gather = route.gather_s(weights, data_parallel) if zero_stage <= 2 else 0.0
    return scatter + gather


def parameter_gather_s(
    parameters: int, states: StateBytes, zero_stage: int, data_parallel: int, route: Route
) -> float:
    """ZeRO stage 3 gathers parameters before each forward and each backward."""
    if zero_stage < 3:
        return 0.0
    return route.gather_s(parameters * states.parameter, data_parallel)


def micro_batch_reduction_s(
    parameters: int, states: StateBytes, zero_stage: int, data_parallel: int, route: Route
) -> float:
    """ZeRO stages 2 and 3 scatter gradients after each micro-batch, as no rank keeps them all."""
    if zero_stage < 2:
        return 0.0
    return route.gather_s(parameters * states.gradient, data_parallel)


def whole_us_ns(seconds: float) -> int:
    """Seconds as nanoseconds, rounded up to whole microseconds.

    The model is far less exact than that, and a coarse common divisor sharpens lower bounds.
    """
    return math.ceil(seconds * 1e6 - 1e-6) * NS_PER_US
