"""Memory formulas against the published figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.degrees import Degrees
from planner.cost.memory import (
    ActivationShape,
    attention_core_bytes,
    embedding_activation_bytes,
    head_activation_bytes,
    layer_activation_bytes,
    layer_input_bytes,
    layer_weight_grad_bytes,
    state_bytes,
)
from planner.cost.model import Model, read_model
from planner.cost.parameters import Shard
from planner.sizes import GIB

# Korthikanti et al. 2022, table 3 and figure 1: hidden size, heads, layers, micro-batch size,
# tensor degree, pipeline stages, chunks, then GiB with tensor parallelism and with tensor and
# sequence parallelism and selective recomputation.
FIGURE_1 = {
    "22B": (6144, 64, 48, 4, 8, 1, 1, 59.25, 9.5625),
    "175B": (12288, 96, 96, 1, 8, 8, 3, 66.84375, 12.3515625),
    "530B": (20480, 128, 105, 1, 8, 35, 3, 114.0234375, 23.076171875),
    "1T": (25600, 160, 128, 1, 8, 64, 1, 131.25, 26.5625),
}
FIGURE_7 = {  # Per cent of tensor parallelism alone: sequence, selective, both, full.
    "22B": (66.84, 49.42, 16.18, 7.64),
    "175B": (62.04, 56.53, 18.49, 8.71),
    "530B": (58.31, 62.04, 20.27, 9.42),
    "1T": (58.31, 62.04, 20.27, 9.42),
}


def gpt(hidden_size: int, heads: int, layers: int) -> Model:
    return read_model(
        {
            "layers": layers,
            "hidden_size": hidden_size,
            "heads": heads,
            "vocabulary": 51200,
            "sequence": 2048,
        }
    )


def shape(
    micro_batch_size: int,
    tensor: int,
    *,
    sequence_parallel: bool = False,
    flash: bool = False,
    sequence: int = 2048,
    element_bytes: int = 2,
) -> ActivationShape:
    return ActivationShape(
        sequence, micro_batch_size, tensor, sequence_parallel, element_bytes, flash
    )


@pytest.mark.parametrize("name", FIGURE_1)
def test_activations_of_the_first_stage(name: str) -> None:
    hidden, heads, layers, batch, tensor, stages, chunks, plain, best = FIGURE_1[name]
    model = gpt(hidden, heads, layers)
    interleaved = 1 + (stages - 1) / (stages * chunks) if chunks > 1 else 1
    only_tensor = layers * layer_activation_bytes(model, shape(batch, tensor)) * interleaved
    both = shape(batch, tensor, sequence_parallel=True)
    selective = layer_activation_bytes(model, both) - attention_core_bytes(model, both)
    assert only_tensor / GIB == pytest.approx(plain, rel=1e-3)
    assert layers * selective * interleaved / GIB == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("name", FIGURE_7)
def test_share_of_tensor_parallelism_alone(name: str) -> None:
    hidden, heads, layers, batch, tensor = FIGURE_1[name][:5]
    model = gpt(hidden, heads, layers)
    alone, both = shape(batch, tensor), shape(batch, tensor, sequence_parallel=True)
    baseline = layer_activation_bytes(model, alone)
    kept = (
        layer_activation_bytes(model, both),
        baseline - attention_core_bytes(model, alone),
        layer_activation_bytes(model, both) - attention_core_bytes(model, both),
        layer_input_bytes(model, alone),
    )
    shares = [100 * size / baseline for size in kept]
    assert shares == pytest.approx(FIGURE_7[name], abs=0.2)


def test_gpt_layer_in_closed_form() -> None:
    model = read_model("GPT-14.2B")
    tokens, hidden, heads = 1024, 5520, 46
    assert layer_activation_bytes(model, shape(1, 1, sequence=1024)) == tokens * (
        34 * hidden + 5 * heads * 1024
    )
    assert layer_activation_bytes(model, shape(1, 1, sequence=1024, flash=True)) == (
        34 * tokens * hidden
    )
    assert layer_weight_grad_bytes(model, shape(1, 1, sequence=1024)) == 32 * tokens * hidden


def test_gated_layer_keeps_gate_up_and_product() -> None:
    model = read_model("Llama-2-7B")
    size = layer_activation_bytes(model, shape(1, 1, sequence=4096, flash=True))
    assert size == 4096 * 2 * (8 * 4096 + 3 * 11008)
    assert layer_weight_grad_bytes(model, shape(1, 1, sequence=4096)) == size


def test_the_norm_outside_the_layers_keeps_its_input_where_it_is() -> None:
    encoder = read_model("BERT-Large")
    pre_norm = read_model({"preset": "BERT-Large", "norm_placement": "pre"})
    one = shape(8, 1, sequence=512)
    norm_input = 2 * 8 * 512 * 1024
    assert (
        embedding_activation_bytes(encoder, one)
        == embedding_activation_bytes(pre_norm, one) + norm_input
    )
    assert head_activation_bytes(encoder, one) == head_activation_bytes(pre_norm, one) - norm_input
    assert layer_activation_bytes(encoder, one) == layer_activation_bytes(pre_norm, one)


def test_single_precision_doubles_all_but_masks() -> None:
    model = read_model("GPT-14.2B")
    assert layer_activation_bytes(model, shape(1, 1, flash=True, element_bytes=4)) == (
        2048 * 5520 * (2 * 32 + 2)
    )


@pytest.mark.parametrize(
    ("precision", "gradients", "optimizer", "total"),
    [
        ("bf16", "fp32", "adam", 18),
        ("fp16", "fp32", "adam", 20),
        ("fp32", "fp32", "adam", 16),
        ("bf16", "same", "adam", 16),
        ("bf16", "fp32", "sgd_momentum", 14),
        ("fp32", "same", "sgd", 8),
    ],
)
def test_bytes_per_parameter(precision: str, gradients: str, optimizer: str, total: int) -> None:
    assert state_bytes(precision, gradients, optimizer).total == total


@pytest.mark.parametrize(("precision", "kept", "shared"), [("bf16", 6, 12), ("fp16", 4, 16)])
def test_distributed_optimizer(precision: str, kept: int, shared: int) -> None:
    """Megatron-LM's documentation: 6 + 12/d with bf16, 4 + 16/d with fp16."""
    states = state_bytes(precision, "fp32", "adam")
    degrees = Degrees(pipeline=1, tensor=1, data=4, context=2)
    assert states.on_rank(Shard(8_000), 1, degrees) == 8_000 * kept + 1_000 * shared


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_figure_1(stage: int, gigabytes: float) -> None:
    """Rajbhandari et al. 2020, figure 1: 7.5 B parameters on 64 GPUs."""
    states = state_bytes("fp16", "same", "adam")
    on_rank = states.on_rank(Shard(7_500_000_000), stage, Degrees(1, 1, 64))
    assert on_rank / 1e9 == pytest.approx(gigabytes, abs=0.05)


def test_states_of_experts_are_split_over_the_ranks_that_hold_them() -> None:
    """Eight replicas, experts over four of them: two ranks hold the same experts."""
    states, degrees = state_bytes("bf16", "fp32", "adam"), Degrees(1, 1, 8, expert=4)
    assert states.by_kind(Shard(800, 80), 1, degrees) == (1760, 3520, 12 * (100 + 40))
    assert states.by_kind(Shard(800, 80), 3, degrees) == (2 * 140, 4 * 140, 12 * 140)


@given(
    heads=st.sampled_from([8, 16, 32]),
    head_dim=st.sampled_from([64, 128]),
    sequence=st.sampled_from([512, 1024, 4096]),
    batch=st.integers(1, 4),
    sequence_parallel=st.booleans(),
    flash=st.booleans(),
    gated=st.booleans(),
)
def test_more_tensor_parallelism_never_takes_more(
    heads: int,
    head_dim: int,
    sequence: int,
    batch: int,
    sequence_parallel: bool,
    flash: bool,
    gated: bool,
) -> None:
    model = read_model(
        {
            "layers": 2,
            "hidden_size": heads * head_dim,
            "heads": heads,
            "ffn_hidden_size": 4 * heads * head_dim,
            "gated": gated,
            "vocabulary": 32000,
            "sequence": sequence,
        }
    )
    for formula in (layer_activation_bytes, layer_weight_grad_bytes, layer_input_bytes):
        sizes = [
            formula(
                model,
                shape(
                    batch,
                    tensor,
                    sequence_parallel=sequence_parallel,
                    flash=flash,
                    sequence=sequence,
                ),
            )
            for tensor in (1, 2, 4, 8)
        ]
        assert sizes == sorted(sizes, reverse=True)
