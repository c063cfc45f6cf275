"""Memory estimates against published formulas and measured runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.errors import SpecError
from planner.estimates.memory.estimate import estimate_memory
from planner.sizes import GIB
from tests.unit.estimates.references import (
    GOLDEN_7B,
    GOLDEN_INTERLEAVED,
    GOLDEN_TENSOR,
    PUBLISHED,
)

MIB = 2**20


def estimate(model: Any, cluster: Any, **training: Any) -> dict[str, Any]:
    return estimate_memory({"model": model, "cluster": cluster, "training": training})


@pytest.mark.parametrize("name", PUBLISHED)
def test_activations_of_the_first_rank(name: str) -> None:
    """Korthikanti et al. 2022, figure 1, within 0.1 %."""
    published = PUBLISHED[name]
    plain = estimate_memory(published.body(sequence_parallel=False))
    both = estimate_memory(published.body(recomputation="selective"))
    assert plain["per_rank"][0]["activations_bytes"] / GIB == pytest.approx(
        published.plain_gib, rel=1e-3
    )
    assert both["per_rank"][0]["activations_bytes"] / GIB == pytest.approx(
        published.both_gib, rel=1e-3
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_share_of_tensor_parallelism_alone(name: str) -> None:
    """Figure 7, within 0.2 points."""
    published = PUBLISHED[name]

    def activations(**training: Any) -> int:
        answer = estimate_memory(published.body(**training))
        size: int = answer["per_rank"][0]["activations_bytes"]
        return size

    alone = activations(sequence_parallel=False)
    kept = (
        activations(sequence_parallel=True),
        activations(sequence_parallel=False, recomputation="selective"),
        activations(sequence_parallel=True, recomputation="selective"),
        activations(sequence_parallel=False, recomputation="full"),
    )
    assert [100 * size / alone for size in kept] == pytest.approx(published.shares, abs=0.2)


@pytest.mark.parametrize(
    ("stage", "each"), [(0, 16), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 0.25)]
)
def test_zero_on_64_gpus(stage: int, each: float) -> None:
    """Rajbhandari et al. 2020, figure 1: 7.5 B parameters on 64 GPUs take 120, 31.4, 16.6 and
    1.9 GB in fp16 with gradients of the same."""
    model = {
        "layers": 37,
        "hidden_size": 4096,
        "heads": 32,
        "vocabulary": 12800,
        "sequence": 1024,
    }
    answer = estimate(
        model,
        "8x8xA100-80GB",
        micro_batches=1,
        pipeline_parallel=1,
        zero_stage=stage,
        precision="fp16",
        gradient_precision="same",
    )
    rank = answer["per_rank"][0]
    assert answer["parameters"]["total"] == pytest.approx(7.5e9, rel=5e-3)
    states_bytes = rank["parameters_bytes"] + rank["gradients_bytes"] + rank["optimizer_bytes"]
    assert states_bytes == rank["static_bytes"]
    assert states_bytes == pytest.approx(each * answer["parameters"]["total"], rel=0.01)
    figure_1 = {0: 120, 1: 31.4, 2: 16.6, 3: 1.9}[stage]
    assert states_bytes / 1e9 == pytest.approx(figure_1, rel=0.02)
    assert answer["bytes_per_parameter"]["on_each_rank"] == pytest.approx(each)


@pytest.mark.parametrize(
    ("gpu", "training", "allocated", "largest", "within"),
    [
        ("A100-80GB", GOLDEN_TENSOR, 20_634_103_808, 58_188_115_968, 0.05),
        ("H100", GOLDEN_TENSOR, 20_663_519_232, 57_143_791_616, 0.01),
        ("A100-80GB", GOLDEN_INTERLEAVED, 24_510_808_064, 60_489_064_448, 0.01),
    ],
)
def test_runs_of_megatron_lm(
    gpu: str, training: dict[str, Any], allocated: int, largest: int, within: float
) -> None:
    """Golden values of Megatron-LM's functional tests (7 B parameters, bf16, distributed optimizer,
    8 GPUs; the last pipeline rank reports). States are short by what its libraries and, with a
    pipeline, about 1.1 GB that stay from the first step on."""
    answer = estimate(GOLDEN_7B, f"8x{gpu}", **training)
    rank = answer["per_rank"][-1]
    assert rank["rank"] == answer["most_loaded_rank"]
    assert rank["static_bytes"] == pytest.approx(allocated, rel=0.05)
    assert rank["peak_allocated_bytes"] == pytest.approx(largest, rel=within)
    assert answer["fits"]


def test_theoretical_report_of_megatron_lm_175b() -> None:
    """10,284.62 MiB of states and 4,920.02 of activations with eight micro-batches. It leaves out
    learned positions and the biases of linear layers, 25.2 M and 0.3 M parameters of the rank."""
    answer = estimate(
        "GPT-3-175B",
        "128x8xA100-80GB",
        micro_batches=8,
        sequence=2048,
        tensor_parallel=8,
        pipeline_parallel=16,
        zero_stage=1,
        flash_attention=False,
        recomputation="selective",
        layers_per_stage=[6] * 16,
    )
    first, second = answer["per_rank"][0], answer["per_rank"][1]
    assert first["parameters"] == pytest.approx(1.4379e9, rel=0.02)
    assert second["parameters"] == pytest.approx(1.3593e9, rel=1e-3)
    positions_bytes = 2048 * 12288 * (6 + 12 / 8)
    assert (first["static_bytes"] - positions_bytes) / MIB == pytest.approx(10_284.62, rel=2e-3)
    activations = first["activations_bytes"] + first["embedding_activations_bytes"]
    assert activations / MIB == pytest.approx(4_920.02, rel=1e-3)


def test_theoretical_report_of_megatron_lm_22b() -> None:
    """47,351.46 MiB of states without distributed optimizer; 10,022.01 of activations, among them
    4 s b h (1 + V/h) / t for the loss, where we count a copy of the logits too."""
    published = PUBLISHED["22B"]
    answer = estimate_memory(published.body(recomputation="selective"))
    (rank,) = answer["per_rank"]
    assert rank["static_bytes"] / MIB == pytest.approx(47_351.46, rel=0.01)
    second_copy = 2 * 4 * 2048 * 51200 // 8
    activations = (
        rank["activations_bytes"]
        + rank["embedding_activations_bytes"]
        + rank["logits_bytes"]
        - second_copy
    )
    assert activations / MIB == pytest.approx(10_022.01, rel=1e-3)


def test_theoretical_report_of_megatron_lm_llama() -> None:
    """Llama-3-8B on eight ranks with distributed optimizer: 57,436.90 MiB."""
    answer = estimate("Llama-3-8B", "8xA100-80GB", micro_batches=1, data_parallel=8, zero_stage=1)
    assert answer["per_rank"][0]["static_bytes"] / MIB == pytest.approx(57_436.90, rel=1e-5)


def test_mixture_of_experts_of_megatron_lm() -> None:
    """Mixtral 8x7B on H100s (golden values of its release tests): tensor_parallel 2,
    pipeline_parallel 4 with 8 chunks, whole experts, one per GPU, which is as much as halves of
    two. Its 64 GPUs are inferred, and its router decides how many tokens an expert gets."""
    answer = estimate(
        {"preset": "Mixtral-8x7B", "sequence": 4096},
        "8x8xH100",
        global_batch_size=256,
        tensor_parallel=2,
        pipeline_parallel=4,
        data_parallel=8,
        expert_parallel=4,
        interleaving=8,
        zero_stage=1,
    )
    last = answer["per_rank"][-1]
    assert last["static_bytes"] == pytest.approx(19_743_387_648, rel=0.06)
    assert last["peak_allocated_bytes"] == pytest.approx(35_508_408_320, rel=0.05)
    assert answer["parameters"]["total"] == 46_702_792_704
    assert answer["parameters"]["active"] < 13e9


def test_what_one_parameter_takes() -> None:
    answer = estimate("GPT-1.5B", "8xA100-80GB", micro_batches=1, pipeline_parallel=1, zero_stage=2)
    copies = answer["bytes_per_parameter"]["copies"]
    assert [(row["bytes"], row["type"], row["split_over"]) for row in copies] == [
        (2, "bf16", 1),
        (4, "fp32", 8),
        (4, "fp32", 8),
        (4, "fp32", 8),
        (4, "fp32", 8),
    ]


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("gradients", ["fp32", "same"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd_momentum", "sgd"])
def test_copies_add_up(precision: str, gradients: str, optimizer: str) -> None:
    answer = estimate(
        "GPT-1.5B",
        "1xA100-80GB",
        micro_batches=1,
        precision=precision,
        gradient_precision=gradients,
        optimizer=optimizer,
    )
    found = answer["bytes_per_parameter"]
    assert sum(row["bytes"] for row in found["copies"]) == found["total"] == found["on_each_rank"]


def test_ends_of_the_pipeline_are_told_apart() -> None:
    """Rank 0 has the embedding, the last rank the head; the balanced partition gives them less."""
    answer = estimate("Llama-3-8B", "8xA100-80GB", micro_batches=16, pipeline_parallel=8)
    imbalance = answer["imbalance"]
    totals = [rank["total_bytes"] for rank in answer["per_rank"]]
    assert imbalance["mean_bytes"] == sum(totals) // 8
    assert imbalance["embedding"]["rank_above_mean_bytes"] == totals[0] - imbalance["mean_bytes"]
    assert imbalance["head"]["parameters"] == 128_256 * 4096 + 4096
    assert imbalance["head"]["states_bytes"] == 18 * imbalance["head"]["parameters"]
    assert imbalance["head"]["activations_bytes"] == answer["per_rank"][7]["logits_bytes"]
    assert answer["layers_per_stage"][0] == imbalance["embedding"]["layers"]
    assert imbalance["head"]["layers"] < imbalance["mean_layers"]
    assert str(imbalance["head"]["layers"]) in imbalance["partition"]


def test_a_tied_embedding_is_held_twice() -> None:
    tied = {"preset": "Llama-3-8B", "tied_embeddings": True}
    given = {"micro_batches": 8, "layers_per_stage": [8] * 4}
    pipelined = estimate(tied, "4xA100-80GB", **given)
    untied = estimate("Llama-3-8B", "4xA100-80GB", **given)
    word = 128_256 * 4096
    assert untied["parameters"]["total"] - pipelined["parameters"]["total"] == word
    assert pipelined["per_rank"][3]["parameters"] == untied["per_rank"][3]["parameters"]


def test_communication_buffers_are_named_with_their_part() -> None:
    answer = estimate(
        "Llama-3-8B", "2x8xA100-80GB", micro_batches=8, tensor_parallel=2, pipeline_parallel=4
    )
    worst = answer["per_rank"][answer["most_loaded_rank"]]
    counted = [
        row["bytes"]
        for row in answer["communication_buffers"]
        if row["counted_in"] == "communication_buffers_bytes"
    ]
    assert sum(counted) == worst["communication_buffers_bytes"] > 0
    reserved = [
        row for row in answer["communication_buffers"] if row["counted_in"] == "reserved_bytes"
    ]
    # Tensor, pipeline and data parallel communicators with two connections each.
    assert [row["bytes"] for row in reserved] == [3 * 2 * 24 * 10 * MIB]
    assert all(row["basis"] for row in answer["communication_buffers"])


def test_nccl_may_take_more_than_the_reserve() -> None:
    given = {"micro_batches": 8, "data_parallel": 8, "expert_parallel": 8, "pipeline_parallel": 1}
    answer = estimate("Mixtral-8x7B", "8xH200", **given)
    assert any("NCCL" in warning for warning in answer["warnings"])


def test_what_would_fit() -> None:
    """Each change alone with its peak, up to the first of its kind that fits."""
    answer = estimate(
        "GPT-14.2B",
        "8xA100-40GB",
        micro_batch_size=4,
        global_batch_size=32,
        pipeline_parallel=8,
        flash_attention=False,
    )
    assert not answer["fits"]
    remedies = answer["what_would_fit"]
    changes = {change["change"]: change for change in remedies["changes"]}
    assert changes["offload"]["fits"] is None
    for change in remedies["changes"]:
        fitting = [step for step in change["steps"] if step["fits"]]
        assert len(fitting) == (change["fits"] is True)
        if change["fits"]:
            posted = estimate("GPT-14.2B", "8xA100-40GB", **change["training"])
            assert posted["fits"]
            assert posted["peak_bytes"] == fitting[0]["peak_bytes"]
    assert changes["recomputation"]["fits"]
    assert remedies["least_on_this_cluster"]["gpu_memory_bytes"] < answer["peak_bytes"]
    assert "least_gpus" not in remedies


def test_where_nothing_fits_the_least_number_of_gpus() -> None:
    training = {
        "micro_batch_size": 4,
        "global_batch_size": 1024,
        "tensor_parallel": 8,
        "pipeline_parallel": 4,
        "layers_per_stage": [24] * 4,
    }
    answer = estimate("GPT-3-175B", "4x8xA100-40GB", **training)
    least = answer["what_would_fit"]["least_gpus"]
    assert least["gpus"] > 32
    cluster = {"gpu": "A100-40GB", "nodes": least["nodes"], "gpus_per_node": 8}
    posted = estimate("GPT-3-175B", cluster, **least["training"])
    assert posted["fits"]
    assert posted["peak_bytes"] == least["peak_bytes"]
    # Its states alone fill the memory of all but a few of them.
    assert 18 * answer["parameters"]["total"] > 0.7 * least["gpus"] * posted["limit_bytes"]


def test_where_no_number_of_gpus_helps_it_says_so() -> None:
    answer = estimate(
        "Llama-3-70B",
        "8xA100-40GB",
        global_batch_size=64,
        pipeline_parallel=1,
        tensor_parallel=8,
        sequence=2**21,
    )
    least = answer["what_would_fit"]["least_gpus"]
    assert least["gpus"] is None
    assert "sequence" in least["reason"]


def test_warnings() -> None:
    odd = estimate("GPT-7.1B", "8xA100-80GB", micro_batches=12, pipeline_parallel=8, interleaving=2)
    assert any("multiples of 8" in warning for warning in odd["warnings"])
    plenty = estimate("GPT-7.1B", "8xA100-80GB", micro_batches=16, pipeline_parallel=8)
    spare = plenty["headroom_bytes"] - plenty["limit_bytes"] // 100
    cluster = {
        "gpu": "A100-80GB",
        "gpus_per_node": 8,
        "gpu_memory_bytes": plenty["limit_bytes"] - spare,
    }
    tight = estimate("GPT-7.1B", cluster, micro_batches=16, pipeline_parallel=8)
    assert tight["fits"]
    assert any("left" in warning for warning in tight["warnings"])


def test_the_answer_is_json_and_says_what_it_rests_on() -> None:
    answer = estimate("Llama-3-8B", "8xA100-80GB", micro_batches=8)
    json.dumps(answer, allow_nan=False)
    assert {"what", "value", "basis"} == set(answer["assumptions"][0])
    parts = set(answer["parts"])
    assert parts <= set(answer["per_rank"][0])
    order = answer["assumptions"][0]
    assert order["what"] == "order of operations"
    assert "open" in order["basis"]


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(SpecError) as caught:
        estimate_memory({"model": "GPT-1.5B", "cluster": "8xH100", "trainings": {}})
    assert caught.value.path == ("trainings",)


def test_ways_out_are_found_with_context_ranks_on_all_gpus_of_a_node() -> None:
    """Some tensor degrees leave no room for any pipeline rank, which is no step."""
    training = {
        "global_batch_size": 64,
        "data_parallel": 4,
        "context_parallel": 2,
        "pipeline_parallel": 1,
    }
    answer = estimate_memory({"model": "Llama-3-8B", "cluster": "8xH100", "training": training})
    assert not answer["fits"]
    assert answer["what_would_fit"]["changes"]
