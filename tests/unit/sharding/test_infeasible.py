"""What is said where nothing fits, against counting it all and against solving it changed."""

from __future__ import annotations

import copy
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings

from planner.sharding.build import formulate
from planner.sharding.infeasible import Way, halved
from planner.sharding.least_memory import checkpointed, least_memory
from planner.sharding.settings import cost_settings, rule_options
from tests.unit.sharding.posted import (
    Body,
    bodies,
    extremes,
    formulation,
    repeated,
    resolved,
    solve,
    two_layers,
)

SMALL: Body = {"graph": two_layers(), "devices": 4}
DEEP: Body = {
    "transformer": {"preset": "BERT-Large", "layers": 4, "embeddings": True},
    "devices": 4,
    "device_memory_bytes": 10**8,
}

BY_PROGRAM = "(up to the training program: no field of a request plans with it)"
CHECKPOINTING = f"activation checkpointing of whole layers {BY_PROGRAM}"
MIXED = "mixed precision (training.precision bf16)"
ZERO = "ZeRO stage 3 (training.zero_stage 3)"
OFFLOAD = f"optimizer states in host memory {BY_PROGRAM}"
ALL = (
    "ZeRO stage 3 (training.zero_stage 3), checkpointing and optimizer states in host memory (the "
    "latter two are up to the training program)"
)


def shortage(body: Body) -> dict[str, Any]:
    answer = solve(body)
    assert answer["state"] == "infeasible", answer
    found: dict[str, Any] = answer["document"]["infeasibility"]
    return found


def remedies(body: Body) -> dict[str, int]:
    # How many devices would do is not looked for in earnest.
    with patch("planner.sharding.smallest_devices.SEARCH_S", 0.1):
        return {own["change"]: own["memory_bytes"] for own in shortage(body)["remedies"]}


def least_of(body: Body) -> int:
    """As a solve would find it: one byte less is infeasible, and says what is needed."""
    return least_memory(formulation(body)).total_bytes


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies())
def test_the_least_memory_is_that_of_the_instance(body: Body) -> None:
    own = formulation(body)
    least = least_memory(own)
    assert least.total_bytes == extremes(body)[0]
    parts = [
        times * min(cost.memory_bytes for cost in costs)
        for times, costs in zip(own.times, own.costs, strict=True)
    ]
    largest = parts[own.graph.number_of[least.name]]
    assert largest == max(parts)


def test_the_fewest_devices_and_the_remedies_do_when_they_are_posted() -> None:
    tight = {
        "transformer": {"preset": "BERT-Large", "batch": 8, "sequence": 512},
        "devices": 4,
        "device_memory_bytes": 62_000_000,
    }
    found = shortage(tight)
    devices = found["smallest_devices"]
    # What is kept would fit on 8 devices already, but no plan's peak there does.
    assert devices > 8
    assert solve({**tight, "devices": devices})["state"] == "succeeded"
    fitting = [remedy for remedy in found["remedies"] if remedy["predicted_peak_bytes"] is not None]
    assert all(
        remedy["fits"] == (remedy["predicted_peak_bytes"] <= 62_000_000) for remedy in fitting
    )
    assert {remedy["remedy"]: remedy["request_changes"] for remedy in found["remedies"]} == {
        Way.CHECKPOINTING: None,
        Way.ZERO_STAGE: {"training.zero_stage": 3},
        Way.OPTIMIZER_IN_HOST_MEMORY: None,
        Way.TOGETHER: None,
    }


def test_a_shortage_is_told_in_full() -> None:
    least, _ = extremes(SMALL)
    found = shortage({**SMALL, "device_memory_bytes": least - 1})
    assert found["least_memory_bytes"] == least
    assert found["device_memory_bytes"] == least - 1
    assert found["least_states_bytes"] + found["least_activation_bytes"] == least
    assert found["culprit"] in ("up", "down")
    assert found["smallest_devices"] == found["devices_searched"] > 4
    assert isinstance(found["fewer_devices_ruled_out"], bool)
    on_more = {**SMALL, "devices": found["smallest_devices"]}
    assert extremes(on_more)[0] < least
    assert "stage" not in found


def test_what_no_number_of_devices_holds() -> None:
    found = shortage({**SMALL, "device_memory_bytes": 1})
    assert found["smallest_devices"] is None
    assert not found["fewer_devices_ruled_out"]
    assert not any(remedy["fits"] for remedy in found["remedies"])


def test_zero_stage_3_and_mixed_precision_as_if_asked_for() -> None:
    for training in ({"precision": "fp32"}, {"precision": "fp32", "zero_stage": 1}):
        base = {**DEEP, "training": training}
        found = remedies(base)
        assert found[ZERO] == least_of({**base, "training": {**training, "zero_stage": 3}})
        assert found[MIXED] == least_of({**base, "training": {**training, "precision": "bf16"}})


@pytest.mark.parametrize(
    "transformer",
    [
        {"preset": "BERT-Large", "embeddings": True},
        {"preset": "Llama-3-8B", "layers": 2, "embeddings": True, "sequence": 512},
        {"preset": "Mixtral-8x7B", "sequence": 256},
    ],
)
@pytest.mark.parametrize("flash", [True, False])
def test_a_graph_in_half_precision_is_that_of_the_transformer(
    transformer: Body, flash: bool
) -> None:
    def graph(precision: str) -> Any:
        training = {"precision": precision, "flash_attention": flash, "dropout": True}
        return resolved({"transformer": transformer, "devices": 4, "training": training}).graph

    assert halved(graph("fp32")) == graph("bf16")


def test_what_is_there_already_is_no_remedy() -> None:
    found = remedies({**DEEP, "training": {"zero_stage": 3}})
    assert ZERO not in found
    assert MIXED not in found


def test_optimizer_states_in_host_memory_are_as_if_there_were_none() -> None:
    """Plain SGD in fp32 has none, everything else being the same."""
    base = {**DEEP, "training": {"precision": "fp32"}}
    without = {**base, "training": {"precision": "fp32", "optimizer": "sgd"}}
    assert remedies(base)[OFFLOAD] == least_of(without)


def test_checkpointing_keeps_the_layers_inputs_and_one_layer() -> None:
    """The difference between a layer more and a layer less is its states and its input."""
    sizes = {}
    for layers in (2, 3, 4):
        body = copy.deepcopy(DEEP)
        body["transformer"]["layers"] = layers
        sizes[layers] = remedies(body)[CHECKPOINTING]
    assert sizes[4] - sizes[3] == sizes[3] - sizes[2]
    states = shortage(DEEP)["least_states_bytes"]
    deeper = copy.deepcopy(DEEP)
    deeper["transformer"]["layers"] = 5
    layer_states = shortage(deeper)["least_states_bytes"] - states
    layer_input = 8 * 512 * 1024 * 2 // 4
    # Where only one layer's activations are there, a layer's norms are split for their states.
    assert sizes[4] - sizes[3] <= layer_states + layer_input
    assert sizes[4] - sizes[3] > 0.999 * (layer_states + layer_input)


def test_checkpointing_of_one_layer_alone_saves_nothing() -> None:
    body = {"transformer": "BERT-Large", "devices": 4, "device_memory_bytes": 10**7}
    assert remedies(body)[CHECKPOINTING] == shortage(body)["least_memory_bytes"]


def test_checkpointing_helps_most_where_several_micro_batches_are_held() -> None:
    spec = resolved({"graph": repeated(4), "devices": 4, "training": {"micro_batches": 4}})
    for in_flight in (1, 4):
        own = formulate(
            spec.graph,
            cost_settings(spec, micro_batches_in_flight=in_flight),
            rule_options(spec),
        )
        least, less = least_memory(own), least_memory(own, checkpointed(own))
        assert less.states_bytes <= less.total_bytes < least.total_bytes
        inside = 8 * 64 * 2 * 2 // 4 + 8 * 16 * 2 // 4
        ends = 2 * 8 * 16 * 2 // 4
        assert less.activation_bytes < in_flight * (4 * ends) + inside + 2 * in_flight * ends


def test_all_remedies_together_need_least() -> None:
    found = remedies(DEEP)
    assert found[ALL] == min(found.values())
    assert found[ALL] < found[CHECKPOINTING]


@pytest.mark.long
def test_layers_written_out_have_the_same_ways_out() -> None:
    # With time enough, so that a busy machine finds no more devices than an idle one.
    with (
        patch("planner.sharding.smallest_devices.SEARCH_S", 60.0),
        patch("planner.sharding.planning.LONGEST_FITTING_S", 60.0),
    ):
        folded, exact = shortage(DEEP), shortage({**DEEP, "solver": {"exact": True}})
    assert exact["remedies"] == folded["remedies"]
    assert exact["smallest_devices"] == folded["smallest_devices"]


def test_pins_that_are_the_reason_are_told() -> None:
    least, _ = extremes(SMALL)
    body = {**SMALL, "device_memory_bytes": 2 * least}
    pinned = {**body, "pin": {"up": "d4-r1-c1", "down": "d4-r1-c1"}}
    found = shortage(pinned)
    assert found["least_memory_bytes"] == least
    assert found["least_memory_with_pins_bytes"] > 2 * least
    assert found["pins_are_the_reason"]
    both = shortage({**pinned, "device_memory_bytes": least - 1})
    assert not both["pins_are_the_reason"]
