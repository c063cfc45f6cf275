"""Context and expert parallelism, and what a client says of chunks and layers."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.parameters import count_parameters, layer_shard
from planner.cost.placement import interleaved
from planner.cost.resolve import resolve
from planner.cost.spec import read_cost_model
from planner.errors import SpecError

LONG = {"micro_batches": 8, "pipeline_parallel": 1, "sequence": 32768, "offload": False}


def test_context_ranks_share_tokens_and_scores() -> None:
    """Each has half of the tokens, which attend to all: half of everything, the ring hidden."""
    whole = read_cost_model("Llama-3-8B", "8xH100", {**LONG, "data_parallel": 8})
    half = read_cost_model(
        "Llama-3-8B", "8xH100", {**LONG, "data_parallel": 4, "context_parallel": 2}
    )
    assert 2 * half.blocks.layer.activation_bytes == whole.blocks.layer.activation_bytes
    for name in ("forward_ns", "backward_input_ns", "backward_weight_ns"):
        ours, theirs = getattr(half.blocks.layer, name), getattr(whole.blocks.layer, name)
        assert ours == pytest.approx(theirs / 2, abs=1000)


def test_a_ring_that_attention_does_not_hide_takes_its_time() -> None:
    """Full multi-head keys and values between nodes of one GPU, with little to compute."""
    fields = {"gpu": "H100", "nodes": 8, "gpus_per_node": 1}
    training = {**LONG, "sequence": 4096, "context_parallel": 8}
    layer = read_cost_model("Llama-2-7B", fields, training).blocks.layer
    faster = read_cost_model(
        "Llama-2-7B", {**fields, "inter_node_bytes_per_s": 1e15, "network_latency_ns": 0}, training
    ).blocks.layer
    sent_s = 7 * (2 * 512 * 4096 * 2 / (0.8 * 50e9) + 20e-6)
    attention_s = 2 * 512 * 4096 * 4096 / (0.74 * 989e12) * 7 / 8
    exposed_ns = (sent_s - attention_s) * 1e9
    assert layer.forward_ns - faster.forward_ns == pytest.approx(exposed_ns, abs=1000)
    assert layer.backward_input_ns - faster.backward_input_ns == pytest.approx(
        2 * exposed_ns, abs=1000
    )


def test_context_ranks_hold_and_reduce_the_same_parameters() -> None:
    data = read_cost_model("Llama-3-8B", "8xH100", {**LONG, "data_parallel": 8, "zero_stage": 1})
    context = read_cost_model(
        "Llama-3-8B",
        "8xH100",
        {**LONG, "data_parallel": 2, "context_parallel": 4, "zero_stage": 1},
    )
    assert context.training.degrees.replicas == data.training.degrees.replicas == 8
    for costs in (context, data):
        shard = costs.parameters_of(interleaved(1, 1), 0, 32)
        assert shard.total == count_parameters(costs.model).total


def test_experts_are_split_over_expert_ranks() -> None:
    model = read_cost_model("Mixtral-8x7B", "8xH100", {**LONG, "data_parallel": 8}).model
    whole, quarter = layer_shard(model, 1), layer_shard(model, 1, 4)
    assert whole.dense == quarter.dense
    assert whole.expert == 4 * quarter.expert == 8 * 3 * 4096 * 14336
    assert whole.total * 32 + 2 * 32000 * 4096 + 4096 == count_parameters(model).total


def test_expert_parallelism_adds_all_to_alls_and_saves_states() -> None:
    base: dict[str, Any] = {**LONG, "sequence": 4096, "data_parallel": 8}
    alone = read_cost_model("Mixtral-8x7B", "8xH100", base)
    spread = read_cost_model("Mixtral-8x7B", "8xH100", {**base, "expert_parallel": 8})
    # Each of two experts' tokens go to another rank in 7 of 8 cases, there and back.
    sent_s = 2 * (2 * 4096 * 4096 * 2 * 7 / 8 / (0.93 * 450e9) + 7 * 6e-6)
    more_ns = spread.blocks.layer.forward_ns - alone.blocks.layer.forward_ns
    assert more_ns == pytest.approx(sent_s * 1e9, abs=1000)
    busy = read_cost_model(
        "Mixtral-8x7B", "8xH100", {**base, "expert_parallel": 8, "expert_load": 1.5}
    )
    experts_s = 2 * 4096 * 2 * 3 * 4096 * 14336 / (0.74 * 989e12)
    slower_ns = busy.blocks.layer.backward_weight_ns - spread.blocks.layer.backward_weight_ns
    assert slower_ns == pytest.approx(0.5 * experts_s * 1e9, abs=1000)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        (
            {"expert_parallel": 3, "data_parallel": 4},
            "expert_parallel",
            "Degrees that fit: 1, 2, 4",
        ),
        ({"context_parallel": 3, "data_parallel": 1}, "context_parallel", "2 x context_parallel"),
        ({"interleaving": 5, "pipeline_parallel": 8}, "interleaving", "at most 4"),
        ({"layers_per_stage": [16, 15]}, "layers_per_stage", "add up to 31"),
    ],
)
def test_errors_name_the_field_and_the_remedy(
    fields: dict[str, Any], field: str, words: str
) -> None:
    training = {"micro_batches": 8, "pipeline_parallel": 2, "sequence": 4096, **fields}
    with pytest.raises(SpecError) as caught:
        resolve("Mixtral-8x7B", "8xH100", training)
    assert caught.value.path == ("training", field)
    assert words in str(caught.value)


def test_asked_chunks_and_layers_are_kept() -> None:
    training = {
        "micro_batches": 8,
        "pipeline_parallel": 4,
        "tensor_parallel": 2,
        "layers_per_stage": [3, 4, 4, 4, 5, 5, 4, 3],
    }
    (candidate,) = resolve("Llama-3-8B", "8xH100", training).candidates
    assert candidate.placement == "interleaved_2"
    assert candidate.layers_per_stage == (3, 4, 4, 4, 5, 5, 4, 3)
    names = [
        candidate.placement
        for candidate in resolve(
            "Llama-3-8B", "8xH100", {**training, "layers_per_stage": None, "interleaving": 1}
        ).candidates
    ]
    assert names == ["one_chunk"]
