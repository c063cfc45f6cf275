"""The rule of thumb beside the predicted throughput, and where more GPUs are slower."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from planner.errors import SpecError
from planner.estimates.scaling.estimate import ALPHA, estimate_scaling
from planner.estimates.scaling.points import Kind
from planner.estimates.step_time.estimate import estimate_step_time

SLOW_NETWORK = {
    "gpu": "A100-80GB",
    "nodes": 4,
    "gpus_per_node": 8,
    "inter_node_bytes_per_s": 1.25e9,
}


def estimate(model: Any, cluster: Any, kind: str | None = None, **training: Any) -> dict[str, Any]:
    body = {"model": model, "cluster": cluster, "training": training}
    return estimate_scaling(body | ({"kind": kind} if kind else {}))


LLAMA = {"global_batch_size": 256, "tensor_parallel": 4, "pipeline_parallel": 4, "zero_stage": 1}


@pytest.fixture(scope="module")
def llama() -> dict[str, Any]:
    return estimate("Llama-3-70B", "16x8xH100", **LLAMA)


@pytest.mark.parametrize("kind", Kind)
def test_the_rule_of_thumb(llama: dict[str, Any], kind: Kind) -> None:
    """N = T_comp / (T_comm x alpha), at both ends of alpha; communication takes 1 / (1 + alpha) of
    the step there."""
    rule = llama["kinds"][kind.value]["rule_of_thumb"]
    low, high = ALPHA[kind]
    least, most = rule["devices"]
    assert least == pytest.approx(rule["compute_ns"] / (rule["communication_ns"] * high))
    assert most == pytest.approx(rule["compute_ns"] / (rule["communication_ns"] * low))
    share = rule["communication_ns"] / (rule["communication_ns"] + rule["compute_ns"] / least)
    assert share == pytest.approx(rule["communication_share_there"][0])
    degrees = {Kind.TENSOR: 4, Kind.PIPELINE: 4, Kind.DATA: 8}
    assert rule["measured_at_degree"] == degrees[kind]
    assert rule["gpus"][0] == pytest.approx(128 // degrees[kind] * least)


def test_what_the_rule_is_made_of(llama: dict[str, Any]) -> None:
    body = {"model": "Llama-3-70B", "cluster": "16x8xH100", "training": LLAMA}
    step = estimate_step_time(body)
    parts = {part["what"]: part["ns"] for part in step["breakdown"]}
    tensor = llama["kinds"]["tensor"]["rule_of_thumb"]
    assert tensor["communication_ns"] == parts["tensor_collectives"]
    assert tensor["compute_ns"] == 4 * (step["compute_ns"] - parts["tensor_collectives"])
    data = llama["kinds"]["data"]["rule_of_thumb"]
    assert data["communication_ns"] == parts["gradient_reduction"]
    assert data["compute_ns"] == 8 * step["compute_ns"]
    pipeline = llama["kinds"]["pipeline"]["rule_of_thumb"]
    assert pipeline["compute_ns"] == 32 * sum(rank["work_ns"] for rank in step["per_rank"])


@pytest.mark.parametrize("kind", Kind)
def test_the_curve_passes_through_the_present_degree(llama: dict[str, Any], kind: Kind) -> None:
    step = estimate_step_time({"model": "Llama-3-70B", "cluster": "16x8xH100", "training": LLAMA})
    curve = llama["kinds"][kind.value]["strong_scaling"]
    present = {Kind.TENSOR: 4, Kind.PIPELINE: 4, Kind.DATA: 8}[kind]
    (point,) = [point for point in curve["points"] if point["degree"] == present]
    assert point["step_time_ns"] == step["step_time_ns"]
    assert point["tokens_per_s"] == pytest.approx(step["tokens_per_s"])
    assert point["fits"] == step["fits"]
    for each in curve["points"]:
        assert each["global_batch_size"] == 256
        assert each["gpus"] == 128 * each["degree"] // present
        assert 0 < each["efficiency"] <= 1.1
        assert each["speedup"] == pytest.approx(
            curve["points"][0]["step_time_ns"] / each["step_time_ns"]
        )
    best = max(curve["points"], key=lambda each: each["tokens_per_s"])
    assert curve["best_degree"] == best["degree"]


def test_weak_scaling_keeps_the_micro_batches(llama: dict[str, Any]) -> None:
    curve = llama["kinds"]["data"]["weak_scaling"]
    assert {point["micro_batches"] for point in curve["points"]} == {32}
    assert [point["global_batch_size"] for point in curve["points"]] == [
        32 * point["degree"] for point in curve["points"]
    ]
    assert all(0.9 < point["efficiency"] <= 1 for point in curve["points"])


def test_a_slow_network_turns_scaling_negative() -> None:
    """Two nodes over 10 Gbit/s are slower than one: said with the degrees, the cause and the
    time."""
    answer = estimate("GPT-1.5B", SLOW_NETWORK, global_batch_size=32, data_parallel=32)
    data = answer["kinds"]["data"]["strong_scaling"]
    assert data["best_degree"] == 8
    fall = data["negative"][0]
    assert (fall["from_degree"], fall["to_degree"], fall["cause"]) == (8, 16, "network")
    assert fall["part"] == "gradient_reduction"
    before, after = fall["tokens_per_s"]
    assert after < before
    warnings = " ".join(answer["warnings"])
    assert "data_parallel from 8 to 16" in warnings
    assert "network of 2 nodes" in warnings
    assert "beyond the best degree, 8" in warnings
    points = data["points"]
    rising = [(a, b) for a, b in pairwise(points) if a["degree"] < 8]
    assert all(a["tokens_per_s"] < b["tokens_per_s"] for a, b in rising)


def test_layers_that_do_not_divide_turn_scaling_negative() -> None:
    """With a layer and the head on the last rank more ranks take over nothing of it."""
    answer = estimate(
        "GPT-1.5B", "4x8xA100-80GB", "pipeline", global_batch_size=64, pipeline_parallel=8
    )
    falls = answer["kinds"]["pipeline"]["strong_scaling"]["negative"]
    assert falls
    assert falls[-1]["cause"] == "divisibility"
    assert "head" in falls[-1]["reason"]


def test_degrees_that_do_not_divide_are_named() -> None:
    answer = estimate("GPT-1.5B", "8xA100-80GB", "data", global_batch_size=24, data_parallel=8)
    refused = answer["kinds"]["data"]["strong_scaling"]["refused"]
    assert [each["degree"] for each in refused] == [16]
    assert "multiple" in refused[0]["reason"]
    assert set(answer["kinds"]) == {"data"}


def test_a_kind_that_is_not_used_yet_is_measured_at_two() -> None:
    answer = estimate("GPT-1.5B", "2x8xA100-80GB", global_batch_size=64, pipeline_parallel=1)
    for kind, degree in (("tensor", 2), ("pipeline", 2), ("data", 16)):
        rule = answer["kinds"][kind]["rule_of_thumb"]
        assert rule["measured_at_degree"] == degree
        assert rule["devices"] is not None


def test_a_measured_profile_cannot_be_taken_apart() -> None:
    profile = {"layer": {"forward_ns": 10_000_000}}
    answer = estimate("GPT-1.5B", "8xA100-80GB", micro_batches=16, profile=profile)
    assert answer["kinds"]["tensor"]["rule_of_thumb"]["devices"] is None
    assert "profile" in answer["kinds"]["tensor"]["rule_of_thumb"]["reason"]
    assert answer["kinds"]["pipeline"]["rule_of_thumb"]["devices"] is not None


def test_layers_given_per_stage_hold_for_their_stages_only() -> None:
    given = {"global_batch_size": 64, "data_parallel": 2, "layers_per_stage": [4, 6, 6, 6]}
    answer = estimate("GPT-1.5B", "8xA100-80GB", **given)
    curve = answer["kinds"]["pipeline"]["strong_scaling"]
    assert {2, 4, 8} <= {point["degree"] for point in curve["points"]}
    json.dumps(answer, allow_nan=False)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(SpecError) as caught:
        estimate("GPT-1.5B", "8xA100-80GB", "sequence", micro_batches=8)
    assert caught.value.path == ("kind",)
    assert "tensor" in caught.value.remedy
