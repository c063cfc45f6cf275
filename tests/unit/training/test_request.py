"""Requests: what they resolve to, and what is said about those that cannot be searched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.errors import SpecError
from planner.training.request import read_spec, resolve_request
from tests.unit.training.posted import GPU, MODEL, body

EXAMPLES = Path(planner.__file__).parent / "examples" / "training"
MOE = {"experts": 4, "experts_per_token": 2}


def problem_of(request: Any) -> SpecError:
    with pytest.raises(SpecError) as found:
        resolve_request(request)
    return found.value


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"colour": 1}, "colour", "not a known field"),
        ({"search": {"colour": [1]}}, "search.colour", "not a known field"),
        ({"search": {"zero_stage": [4]}}, "search.zero_stage.0", "3"),
        ({"search": {"tensor_parallel": []}}, "search.tensor_parallel", "at least 1"),
        ({"search": {"top": 0}}, "search.top", "1"),
        ({"search": {"finalists": 11}}, "search.finalists", "10"),
        ({"search": {"devices": [4, 9]}}, "search.devices.1", "8 GPUs"),
        (
            {"search": {"devices": [7]}, "training": {"pipeline_parallel": 1}},
            "training.global_batch_size",
            "does not divide",
        ),
        ({"memory_headroom": 1}, "memory_headroom", "less than 1"),
        ({"solver": {"time_limit_s": 0}}, "solver.time_limit_s", "greater than 0"),
        ({"training": {"micro_batches": 4}}, "training.micro_batches", "global_batch_size"),
        ({"training": {"global_batch_size": None}}, "training.global_batch_size", "required"),
        ({"training": {"global_batch_size": "8"}}, "training.global_batch_size", "whole number"),
        ({"training": {"colour": 1}}, "training.colour", "not a known field"),
        ({"training": {"profile": {"transfer_ns": 5}}}, "training.profile", "efficiency"),
        ({"training": {"objective": "steady_span"}}, "training.objective", "step time"),
        ({"training": {"tensor_parallel": 3}}, "training.tensor_parallel", "1, 2, 4"),
        ({"training": {"pipeline_parallel": 9}}, "training.pipeline_parallel", "at most 8"),
        ({"training": {"data_parallel": 5}}, "training.data_parallel", "global batch (32)"),
        ({"training": {"micro_batch_size": 3}}, "training.micro_batch_size", "global batch (32)"),
        ({"training": {"expert_parallel": 2}}, "training.expert_parallel", "experts (1)"),
        ({"training": {"context_parallel": 3}}, "training.context_parallel", "1024"),
        ({"training": {"layers_per_stage": [4, 5]}}, "training.layers_per_stage", "8 layers"),
        ({"training": {"precision": "fp16"}}, "training.precision", "no fp16 rate"),
        ({"training": {"sequence": 2048}}, "training.sequence", "learned positions"),
        ({"search": {"tensor_parallel": [1, 8]}}, "search.tensor_parallel", "1, 2, 4"),
        (
            {"training": {"zero_stage": 1}, "search": {"zero_stage": [1]}},
            "search.zero_stage",
            "training.zero_stage",
        ),
        (
            {"training": {"tensor_parallel": 4, "pipeline_parallel": 4, "data_parallel": 1}},
            "training.data_parallel",
            "ask for 16 GPUs",
        ),
        ({"training": {"pipeline_parallel": 3, "data_parallel": 1}}, "training", "multiply"),
        ({"routing_frequency": [1, 2]}, "routing_frequency", "has no experts"),
        ({"model": MOE, "routing_frequency": [1, 2]}, "routing_frequency", "2 numbers"),
        (
            {"model": MOE, "routing_frequency": [1] * 4, "training": {"expert_load": 2}},
            "training.expert_load",
            "routing_frequency",
        ),
        ({"model": {"layers": 0}}, "model.layers", "1"),
        ({"cluster": {"nodes": 0}}, "cluster.nodes", "1"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], path: str, words: str) -> None:
    problem = problem_of(body(**changes))
    assert ".".join(map(str, problem.path)) == path
    assert words in f"{problem.message} {problem.remedy}"


@pytest.mark.parametrize("name", ["model", "cluster", "training"])
def test_each_document_is_required(name: str) -> None:
    request = body()
    del request[name]
    assert problem_of(request).path == (name,)


def test_what_is_given_is_fixed_and_the_rest_is_searched() -> None:
    resolved = resolve_request(
        body(
            training={"tensor_parallel": 2, "zero_stage": 1, "pipeline_parallel": None},
            search={"micro_batch_size": [4, 1, 4], "recomputation": ["full", "none"]},
        )
    )
    choices = resolved.resolved.choices
    assert choices.tensor_parallel == (2,)
    assert choices.zero_stage == (1,)
    assert choices.pipeline_parallel is None
    assert choices.micro_batch_size == (1, 4)
    assert [how.value for how in choices.recomputation] == ["none", "full"]
    assert choices.offload == (False, True)


def test_devices_are_all_or_what_the_degrees_make_or_as_listed() -> None:
    def devices(**changes: Any) -> tuple[int, ...]:
        return resolve_request(body(**changes)).resolved.devices

    fixed = {"tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": 1}
    assert devices() == (8,)
    assert devices(training=fixed) == (4,)
    assert devices(training={**fixed, "context_parallel": 2}) == (8,)
    assert devices(search={"devices": [2, 8, 4, 8]}) == (8, 4, 2)
    assert devices(search={"pareto": True}) == (8, 4, 2, 1)


def test_headroom_is_left_free() -> None:
    spec = resolve_request(body(memory_headroom=0.25)).resolved
    assert spec.cluster.memory_bytes == 3 * 2**30
    assert spec.cluster_fields["gpu_memory_bytes"] == 3 * 2**30
    named = body() | {"cluster": "2x4xH100", "memory_headroom": 0.5}
    fields = resolve_request(named).resolved.cluster_fields
    assert (fields["nodes"], fields["gpus_per_node"], fields["gpu"]) == (2, 4, "H100-80GB")


def test_a_spec_survives_its_document() -> None:
    request = body(
        model=MOE,
        search={"top": 2, "devices": [4]},
        memory_headroom=0.1,
        routing_frequency=[4, 3, 2, 2],
        solver={"time_limit_s": 5, "engine": "cbc"},
    )
    resolved = resolve_request(request)
    again = read_spec(json.loads(json.dumps(resolved.spec)))
    assert again == resolved.resolved
    assert again.hash() == resolved.spec_hash


def test_requests_that_mean_the_same_have_the_same_hash() -> None:
    def hashed(**changes: Any) -> str:
        return resolve_request(body(**changes)).spec_hash

    first = hashed()
    assert hashed(model={"name": "other"}) == first
    assert hashed(gpu={"name": "other"}) == first
    assert hashed(training={"precision": "bf16", "pipeline_parallel": None}) == first
    assert hashed(search={"top": 5, "zero_stage": [3, 2, 1, 0], "devices": [8]}) == first
    assert hashed(solver={"engine": "highs"}) == first
    different = [
        hashed(model={"layers": 9}),
        hashed(gpu={"hbm_bytes_per_s": 1e12}),
        hashed(training={"zero_stage": 1}),
        hashed(training={"precision": "fp32"}),
        hashed(search={"top": 4}),
        hashed(search={"pareto": True}),
        hashed(memory_headroom=0.1),
        hashed(solver={"time_limit_s": 61}),
    ]
    assert len({first, *different}) == len(different) + 1


def test_a_preset_is_the_same_as_its_sizes() -> None:
    sizes = {"layers": 12, "hidden_size": 768, "heads": 12, "vocabulary": 50257, "sequence": 1024}
    by_name, by_size = body(), body()
    by_name["model"], by_size["model"] = "GPT-2", sizes
    assert resolve_request(by_name).spec_hash == resolve_request(by_size).spec_hash


def test_routing_counts_by_its_proportions() -> None:
    def hashed(weights: Any) -> str:
        return resolve_request(body(model=MOE, routing_frequency=weights)).spec_hash

    assert hashed([1, 2, 2, 1]) == hashed([[0.5, 1, 1, 0.5]] * 8)
    assert hashed([1, 2, 2, 1]) != hashed([1, 2, 1, 2])


def test_what_a_resolved_request_says_of_itself() -> None:
    resolved = resolve_request(body(solver={"time_limit_s": 7, "engine": "cbc"}))
    assert (resolved.gpus, resolved.time_limit_s, resolved.engine) == (8, 7, "cbc")
    assert resolved.engine_named
    assert not resolved.is_reproducible
    assert resolved.shape_hash is resolved.profile is None
    assert not resolve_request(body()).engine_named
    preview = resolved.preview()
    assert preview["enumerated"] == resolved.operations > 1_000
    assert preview["devices"] == [8]
    assert json.dumps(preview)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_examples_resolve(path: Path) -> None:
    request = json.loads(path.read_text())
    for label in ("name", "tags"):
        request.pop(label)
    assert resolve_request(request).operations > 1_000


def test_resolving_loads_no_solver() -> None:
    program = (
        "import sys; from planner.training.request import resolve_request; "
        f"resolve_request({body()!r}).preview(); "
        "sys.exit(bool({'numpy', 'numba', 'ortools', 'mip'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_small_request_is_as_written() -> None:
    assert body()["model"] == MODEL
    assert body()["cluster"]["gpu"] == GPU


def test_rates_that_take_ages_are_refused_before_there_is_a_job() -> None:
    cluster = {"gpu": "H100", "gpus_per_node": 8, "efficiency": {"compute": 1e-300}}
    with pytest.raises(SpecError, match="above 2"):
        resolve_request(body(cluster=cluster))
