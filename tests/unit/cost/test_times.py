"""Time formulas against published formulas and profiles."""

from __future__ import annotations

import pytest

from planner.cost.blocks import build_blocks
from planner.cost.hardware import Cluster, read_cluster
from planner.cost.links import find_host_links
from planner.cost.memory import ActivationShape, state_bytes
from planner.cost.model import read_model
from planner.cost.times import (
    Route,
    gradient_reduction_s,
    head_flops,
    layer_flops,
    whole_us_ns,
)
from planner.cost.training import Training, read_training


def shape(tensor: int = 1, *, flash: bool = False, sequence: int = 1024) -> ActivationShape:
    return ActivationShape(sequence, 1, tensor, False, 2, flash)


def test_flops_of_an_iteration() -> None:
    """Narayanan et al. 2021: 72 B L s h^2 (1 + s/(6h) + V/(12 h L)) without recomputation."""
    model = read_model("GPT-14.2B")
    layer, head = layer_flops(model, shape()), head_flops(model, shape())
    total = sum(
        count * (flops.forward + flops.backward_input + flops.backward_weight)
        for count, flops in ((model.layers, layer), (1, head))
    )
    layers, hidden, vocabulary, sequence = 38, 5520, 51200, 1024
    extra = sequence / (6 * hidden) + vocabulary / (12 * hidden * layers)
    expected = 72 * layers * sequence * hidden**2 * (1 + extra)
    assert total == pytest.approx(expected, rel=1e-12)


def test_weights_take_as_much_in_f_b_and_w_and_scores_only_in_f_and_b() -> None:
    """Zero Bubble, table 1: F 24h + 4s, B 24h + 8s, W 24h, each times b s h."""
    flops = layer_flops(read_model("GPT-1.5B"), shape())
    unit = 1024 * 2304
    assert flops.forward == unit * (24 * 2304 + 4 * 1024)
    assert flops.backward_input == unit * (24 * 2304 + 8 * 1024)
    assert flops.backward_weight == unit * 24 * 2304
    assert flops.recomputable == unit * 4 * 1024


def test_flash_attention_halves_scores_and_repeats_them() -> None:
    flops = layer_flops(read_model("GPT-1.5B"), shape(flash=True))
    unit = 1024 * 2304
    assert flops.forward == unit * (24 * 2304 + 2 * 1024)
    assert flops.backward_input == unit * (24 * 2304 + 5 * 1024)


def test_flash_attention_of_an_encoder_has_nothing_to_skip() -> None:
    flops = layer_flops(read_model("BERT-Large"), shape(flash=True, sequence=512))
    unit = 512 * 1024
    assert flops.forward == unit * (24 * 1024 + 4 * 512)
    assert flops.backward_input == unit * (24 * 1024 + 10 * 512)


def test_tensor_parallelism_splits_the_work() -> None:
    model = read_model("Llama-3-70B")
    whole, part = layer_flops(model, shape()), layer_flops(model, shape(8))
    assert whole.forward == 8 * part.forward


def test_only_chosen_experts_compute() -> None:
    mixtral, dense = read_model("Mixtral-8x7B"), read_model("Llama-3-8B")
    extra = 2 * 1024 * 3 * 4096 * 14336
    assert (
        layer_flops(mixtral, shape()).backward_weight
        == layer_flops(dense, shape()).backward_weight + extra
    )


def test_collectives() -> None:
    """nccl-tests: all-reduce 2 (n-1)/n size/B; the measured 8 x A100 figure of vTrain is 8.193 ms
    for 1 GiB at 229.35 GB/s."""
    route = Route(229.35e9, 0.0)
    assert route.all_reduce_s(2**30, 8) == pytest.approx(8.193e-3, rel=1e-3)
    assert route.gather_s(2**30, 8) * 2 == route.all_reduce_s(2**30, 8)
    assert route.all_reduce_s(2**30, 1) == 0
    assert Route(1e9, 1e-5).transfer_s(10**9) == pytest.approx(1.00001)


def test_gradient_reduction_by_zero_stage() -> None:
    route, states = Route(1e9, 0.0), state_bytes("bf16", "fp32", "adam")
    times = [gradient_reduction_s(10**9, states, stage, 4, route) for stage in range(4)]
    assert times == pytest.approx([6.0, 4.5, 1.5, 0.0])


def test_whole_microseconds() -> None:
    assert whole_us_ns(0.0) == 0
    assert whole_us_ns(1e-9) == 1000
    assert whole_us_ns(5e-6) == 5000


def training(cluster: Cluster, **fields: object) -> Training:
    return read_training({"micro_batches": 8, **fields}, read_model("GPT-1.5B"), cluster)


def test_published_profile_within_a_third() -> None:
    """Zero Bubble's profile of its 6.2 B model on A100s (hidden size 4096, 32 heads, micro-batch
    of 3 x 1024 tokens, 4 layers): F 29.718, B 29.444, W 19.927 ms a stage."""
    model = read_model(
        {
            "layers": 30,
            "hidden_size": 4096,
            "heads": 32,
            "vocabulary": 51200,
            "sequence": 1024,
        }
    )
    cluster = read_cluster("8xA100-80GB")
    settings = read_training(
        {"micro_batches": 32, "micro_batch_size": 3, "flash_attention": False}, model, cluster
    )
    links = find_host_links(cluster, settings.degrees)
    layer = build_blocks(model, cluster, settings, links).layer
    assert 4 * layer.forward_ns / 1e6 == pytest.approx(29.718, rel=1 / 3)
    assert 4 * layer.backward_input_ns / 1e6 == pytest.approx(29.444, rel=1 / 3)
    assert 4 * layer.compute_ns / 1e6 == pytest.approx(79.089, rel=1 / 3)
