"""From a spec to pipeline problems, and back out of a lack of memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import planner
from planner.cost.model_presets import MODEL_PRESETS
from planner.cost.remedies import try_remedies
from planner.cost.resolve import (
    Candidate,
    Resolved,
    StaticMemoryExceeded,
    resolve,
    spec_remedies,
)
from planner.errors import SpecError
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.problem import Duplex, MicroBatchOrder, Objective, PipelineProblem
from planner.sizes import GIB

EXAMPLES = Path(planner.__file__).parent / "examples"
TABLE = ("GPT-1.5B", "GPT-3.6B", "GPT-7.1B", "GPT-14.2B")
ARTICLES = {"micro_batches": 32, "sequence": 1024, "flash_attention": False}


def one_chunk(resolved: Resolved) -> PipelineProblem:
    assert resolved.candidates[0].placement == "one_chunk"
    return resolved.candidates[0].problem


def round_trips(problem: PipelineProblem) -> bool:
    document = problem_to_document(problem)
    return read_problem(json.loads(json.dumps(document))) == problem


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_examples_resolve(path: Path) -> None:
    body = json.loads(path.read_text())
    if "problem" in body:
        assert read_problem(body["problem"]).micro_batches == 8
        return
    resolved = resolve(body["model"], body["cluster"], body["training"])
    assert {"name", "solver"} <= set(body)
    assert all(round_trips(candidate.problem) for candidate in resolved.candidates)


@pytest.mark.parametrize("name", TABLE)
def test_table_of_the_articles(name: str) -> None:
    resolved = resolve(name, "8xA100-40GB", ARTICLES)
    problem = one_chunk(resolved)
    assert len(problem.stages) == 8
    assert problem.micro_batches == 32
    assert sum(resolved.candidates[0].layers_per_stage) == resolved.model.layers
    assert all(device.host_link for device in problem.devices)
    # 1F1B keeps min(M, p - s) micro-batches on rank s.
    fits = all(
        (8 - rank) * problem.stages[rank].activation_bytes[0] <= limit
        for rank, device in enumerate(problem.devices)
        if (limit := device.activation_memory_bytes) is not None
    )
    assert fits == (name != "GPT-14.2B")


def test_every_device_has_what_states_and_reserve_leave() -> None:
    candidate = resolve("GPT-14.2B", "8xA100-40GB", ARTICLES).candidates[0]
    for device, static in zip(candidate.problem.devices, candidate.static_bytes, strict=True):
        assert device.activation_memory_bytes == int(39.39 * GIB) - 2 * GIB - static
    # Five layers and nothing else: 18 bytes for each of 5 (12 h^2 + 13 h) parameters.
    assert candidate.static_bytes[2] == 18 * 5 * (12 * 5520**2 + 13 * 5520)


def test_tied_embedding_is_held_once_where_first_and_last_stage_meet() -> None:
    candidates = {c.placement: c for c in resolve("GPT-7.1B", "8xA100-40GB", ARTICLES).candidates}
    word = 51200 * 4352 * 18

    def beside_layers(candidate: Candidate) -> int:
        layers = sum(candidate.layers_per_stage)
        return sum(candidate.static_bytes) - layers * 18 * (12 * 4352**2 + 13 * 4352)

    assert beside_layers(candidates["one_chunk"]) - beside_layers(candidates["v_shape"]) == word


def test_placements_and_their_transfers() -> None:
    resolved = resolve("GPT-14.2B", "8xA100-40GB", ARTICLES)
    by_name = {candidate.placement: candidate.problem for candidate in resolved.candidates}
    assert list(by_name) == ["one_chunk", "interleaved_2", "interleaved_4", "v_shape"]
    v_shape = by_name["v_shape"]
    assert [stage.device for stage in v_shape.stages] == [*range(8), *reversed(range(8))]
    assert v_shape.transfers[7].forward_ns[0] == 0
    assert v_shape.transfers[6].forward_ns[0] > 0
    assert len(by_name["interleaved_4"].stages) == 32


def test_nodes_hosts_and_links() -> None:
    cluster = {
        "gpu": "H100",
        "nodes": 2,
        "gpus_per_node": 4,
        "host_memory_bytes": 10**12,
        "pcie_switches": [[0, 1, 2, 3]],
        "host_link_duplex": "half",
    }
    problem = one_chunk(resolve("GPT-3.6B", cluster, {"micro_batches": 4}))
    assert [device.host for device in problem.devices] == [0] * 4 + [1] * 4
    assert [host.memory_bytes for host in problem.hosts] == [10**12] * 2
    assert len({device.host_link for device in problem.devices}) == 2
    assert problem.host_link_duplex is Duplex.HALF
    between, inside = problem.transfers[3], problem.transfers[2]
    assert between.forward_ns[0] > inside.forward_ns[0]
    grouped = one_chunk(resolve("GPT-3.6B", cluster, {"micro_batches": 4, "pipeline_parallel": 4}))
    assert [host.memory_bytes for host in grouped.hosts] == [10**12 // 2] * 2


def test_objective_order_and_offload_are_passed_on() -> None:
    training = {
        "micro_batches": 4,
        "objective": "steady_span",
        "micro_batch_order": "free",
        "offload": False,
    }
    problem = one_chunk(resolve("GPT-2", "4xH100", training))
    assert problem.objective is Objective.STEADY_SPAN
    assert problem.micro_batch_order is MicroBatchOrder.FREE
    assert not problem.can_offload


def test_selective_recomputation_moves_scores_to_the_workspace() -> None:
    plain = one_chunk(resolve("GPT-7.1B", "8xA100-40GB", ARTICLES)).stages[3]
    selective = one_chunk(
        resolve("GPT-7.1B", "8xA100-40GB", ARTICLES | {"recomputation": "selective"})
    ).stages[3]
    scores = 5 * 34 * 1024 * 1024
    assert plain.activation_bytes[0] - selective.activation_bytes[0] == 4 * scores
    assert selective.backward_workspace_bytes[0] == scores
    assert selective.backward_input_ns[0] > plain.backward_input_ns[0]
    assert selective.forward_ns == plain.forward_ns


def test_full_recomputation_keeps_inputs_only() -> None:
    full = ARTICLES | {"recomputation": "full"}
    plain = one_chunk(resolve("GPT-7.1B", "8xA100-40GB", ARTICLES)).stages[3]
    fused = one_chunk(resolve("GPT-7.1B", "8xA100-40GB", full)).stages[3]
    split = one_chunk(resolve("GPT-7.1B", "8xA100-40GB", full | {"split_backward": True})).stages[3]
    layer_input, layer = 2 * 1024 * 4352, plain.activation_bytes[0] // 4
    assert fused.activation_bytes[0] == split.activation_bytes[0] == 4 * layer_input
    assert fused.backward_workspace_bytes[0] == layer - layer_input
    assert not fused.has_weight_op(0)
    assert fused.compute_ns(0) == plain.compute_ns(0) + plain.forward_ns[0]
    # Split, what W needs of all four layers stays until W; the rest of one layer is workspace.
    assert split.weight_grad_bytes == plain.weight_grad_bytes
    assert split.backward_allocation_bytes(0) == (
        4 * (32 * 1024 * 4352 - layer_input) + layer - 32 * 1024 * 4352
    )


def test_profile_overrides_what_it_names() -> None:
    profile = {
        "layer": {"forward_ns": 1_000_000, "activation_bytes": 10**8},
        "embedding": {"forward_ns": 7},
        "head": {"backward_weight_ns": 11, "offload_bytes": 13},
        "transfer_ns": 17,
        "activation_memory_bytes": 10**10,
        "epilogue_ns": 19,
    }
    computed = one_chunk(resolve("GPT-3.6B", "8xA100-40GB", ARTICLES))
    resolved = resolve("GPT-3.6B", "8xA100-40GB", ARTICLES | {"profile": profile})
    problem, layers = one_chunk(resolved), resolved.candidates[0].layers_per_stage
    assert problem.stages[0].forward_ns[0] == layers[0] * 1_000_000 + 7
    assert problem.stages[3].activation_bytes[0] == layers[3] * 10**8
    assert problem.stages[3].offload_bytes[0] == layers[3] * 10**8
    assert problem.stages[7].offload_bytes[0] == layers[7] * 10**8 + 13
    assert problem.transfers[0].backward_ns[0] == 17
    assert {device.activation_memory_bytes for device in problem.devices} == {10**10}
    assert {device.epilogue_ns for device in problem.devices} == {19}
    assert (
        problem.stages[3].backward_input_ns[0] * 4
        == computed.stages[3].backward_input_ns[0] * layers[3]
    )
    assert sum("profile" in note["what"] for note in resolved.notes) == 6


def test_notes_tell_decoders_from_encoders() -> None:
    def attention(model: str) -> str:
        notes = resolve(model, "2xA100-80GB", {"micro_batches": 8}).notes
        return next(note["value"] for note in notes if note["what"] == "attention")

    assert attention("GPT-2") == "flash (scores not stored, causal half computed)"
    assert attention("BERT-Large") == "flash (scores not stored, all computed)"


def test_notes_say_what_was_assumed() -> None:
    notes = resolve("Mixtral-8x7B", "4x8xH100", {"micro_batches": 8, "pipeline_parallel": 32}).notes
    assert all(note["what"] and note["value"] and note["basis"] for note in notes)
    by_what = {note["what"]: note for note in notes}
    assert by_what["parameters"]["value"].startswith("46,702,792,704")
    assert by_what["bytes per parameter"]["value"].startswith("18 (2 parameter, 4 gradient, 12")
    assert by_what["matrix products"]["value"] == "74% of 989 TFLOP/s"
    json.dumps(notes)


@pytest.mark.parametrize("name", MODEL_PRESETS)
def test_every_preset_resolves(name: str) -> None:
    training = {"micro_batches": 4, "pipeline_parallel": 12, "data_parallel": 1}
    cluster = {"gpu": "B200", "nodes": 2, "gpus_per_node": 8, "gpu_memory_bytes": 2**42}
    resolved = resolve(name, cluster, training)
    assert all(round_trips(candidate.problem) for candidate in resolved.candidates)
    assert resolved.model_parameters == resolved.parameters.total


def test_static_memory_exceeded_names_devices_and_what_fits() -> None:
    training = {"micro_batches": 8, "pipeline_parallel": 4}
    with pytest.raises(StaticMemoryExceeded) as caught:
        resolve("Llama-3-70B", "4x8xH100", training)
    document = caught.value.to_document()
    assert document["devices"] == [0, 1, 2, 3]
    for needed, limit, smallest in zip(
        document["bytes"], document["limit_bytes"], document["smallest_limit_bytes"], strict=True
    ):
        assert limit < needed < smallest
    fitting = {r["remedy"]: r["training"] for r in document["remedies"] if r["fits"]}
    assert all(
        remedy["request_changes"] == {"training": remedy["training"]}
        for remedy in document["remedies"]
        if remedy["fits"]
    )
    # ZeRO stage 3 would hold the states, but not 20 layers of activations beside them.
    assert set(fitting) == {"more_stages", "tensor_parallel"}
    for changed in fitting.values():
        assert resolve("Llama-3-70B", "4x8xH100", changed).training.global_batch_size == 64
    enough = {"gpu": "H100", "nodes": 4, "gpus_per_node": 8}
    enough["gpu_memory_bytes"] = max(document["smallest_limit_bytes"])
    assert resolve("Llama-3-70B", enough, training).candidates
    json.dumps(document)


def test_nothing_helps_where_the_cluster_is_too_small() -> None:
    with pytest.raises(StaticMemoryExceeded) as caught:
        resolve("Llama-3-405B", "8xH100", {"micro_batches": 8})
    assert not any(remedy.fits for remedy in caught.value.remedies)


def test_remedies_are_those_that_were_found_to_fit() -> None:
    training = ARTICLES | {"micro_batch_size": 4, "micro_batches": 8, "offload": False}
    smallest = 10**9

    def fits(candidates: tuple[Candidate, ...]) -> bool:
        return all(stage.activation_bytes[0] < smallest for stage in candidates[0].problem.stages)

    found = {r.remedy: r for r in try_remedies("GPT-3.6B", "8xA100-40GB", training, fits) if r.fits}
    assert set(found) == {"recomputation"}
    assert found["recomputation"].training == training | {"recomputation": "full"}
    smallest = 3 * 10**9
    found = {r.remedy: r for r in try_remedies("GPT-3.6B", "8xA100-40GB", training, fits) if r.fits}
    assert found["smaller_micro_batch"].training == training | {
        "micro_batch_size": 2,
        "micro_batches": 16,
    }
    assert found["recomputation"].training == training | {"recomputation": "selective"}
    tried = spec_remedies(
        {"model": "GPT-3.6B", "cluster": "8xA100-40GB", "training": training},
        lambda problems: problems[0].can_offload,
    )
    assert [r["remedy"] for r in tried if r["fits"]] == ["offload"]


def test_remedies_together_when_none_is_enough_alone() -> None:
    training = {"global_batch_size": 32, "micro_batch_size": 4, "offload": False}

    def fits(candidates: tuple[Candidate, ...]) -> bool:
        problem = candidates[0].problem
        recomputes = bool(problem.stages[0].backward_workspace_bytes[0])
        return problem.can_offload and recomputes and problem.micro_batches == 32

    (remedy,) = (r for r in try_remedies("GPT-3.6B", "8xA100-40GB", training, fits) if r.fits)
    assert remedy.remedy == "together"
    assert remedy.training is not None
    assert "global_batch_size" not in remedy.training


@pytest.mark.parametrize(
    ("model", "cluster", "training", "path"),
    [
        ("GPT-2", "8xH100", {"micro_batches": 100_000}, ("training", "micro_batches")),
        (
            "GPT-2",
            "8xH100",
            {"micro_batches": 8, "profile": {"layer": {"offload_bytes": 2**52}}},
            ("training", "profile", "layer", "offload_bytes"),
        ),
        (
            "GPT-2",
            "8xH100",
            {"micro_batches": 8, "profile": {"layer": {"forward_ns": 2**53 - 1}}},
            ("model",),
        ),
        (
            {
                "layers": 8,
                "hidden_size": 2**20,
                "heads": 1,
                "vocabulary": 2**24,
                "sequence": 2**24,
                "position_embeddings": "none",
            },
            {"gpu": "H100", "gpus_per_node": 8, "gpu_memory_bytes": 2**53 - 1},
            {"micro_batches": 8, "micro_batch_size": 2**16},
            ("model",),
        ),
    ],
)
def test_errors(model: Any, cluster: Any, training: Any, path: tuple[str, ...]) -> None:
    with pytest.raises(SpecError) as caught:
        resolve(model, cluster, training)
    assert caught.value.path == path


@given(
    heads=st.sampled_from([8, 16]),
    layers=st.integers(4, 12),
    gated=st.booleans(),
    recomputation=st.sampled_from(["none", "selective", "full"]),
    flash=st.booleans(),
    zero_stage=st.integers(0, 3),
)
def test_more_parallelism_never_takes_more_memory(
    heads: int, layers: int, gated: bool, recomputation: str, flash: bool, zero_stage: int
) -> None:
    model = {
        "layers": layers,
        "hidden_size": heads * 64,
        "heads": heads,
        "ffn_hidden_size": heads * 256,
        "gated": gated,
        "vocabulary": 50257,
        "sequence": 512,
    }
    base = {
        "micro_batches": 4,
        "pipeline_parallel": 4,
        "data_parallel": 2,
        "recomputation": recomputation,
        "flash_attention": flash,
        "zero_stage": zero_stage,
    }
    needs = []
    for tensor in (1, 2, 4):
        resolved = resolve(model, "8x8xH100", base | {"tensor_parallel": tensor})
        candidate = resolved.candidates[0]
        stages = candidate.problem.stages
        needs.append(
            [
                static + stage.activation_bytes[0] + stage.backward_allocation_bytes(0)
                for static, stage in zip(candidate.static_bytes, stages, strict=True)
            ]
        )
        assert all(round_trips(found.problem) for found in resolved.candidates)
    totals = [sum(need) for need in needs]
    assert totals == sorted(totals, reverse=True)
    if zero_stage in (0, 1):
        stronger = resolve(model, "8x8xH100", base | {"zero_stage": zero_stage + 1})
        assert sum(stronger.candidates[0].static_bytes) <= sum(
            resolve(model, "8x8xH100", base).candidates[0].static_bytes
        )
