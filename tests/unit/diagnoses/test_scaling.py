"""Throughput that falls as devices are added."""

from __future__ import annotations

from typing import Any

import pytest

from planner.diagnoses.names import Cause, State, Symptom
from tests.unit.diagnoses.cases import answer, finding, for_of, remedy, state

FALLS = Symptom.THROUGHPUT_FALLS_WITH_DEVICES
MODEL = {
    "model": "Llama-3-8B",
    "cluster": "2x8xH100",
    "training": {"micro_batches": 8, "tensor_parallel": 4, "pipeline_parallel": 2},
}


def points(*tokens_per_s: float, **fields: list[int]) -> list[dict[str, Any]]:
    """On 1, 2, 4, … devices."""
    return [
        {
            "devices": 2**k,
            "tokens_per_s": value,
            **{name: values[k] for name, values in fields.items()},
        }
        for k, value in enumerate(tokens_per_s)
    ]


def test_a_growing_serial_share_is_communication() -> None:
    """Karp and Flatt 1990: speedups 1.9 and 3.0 on 2 and 4 give 0.053 and 0.111."""
    found = finding(Cause.COMMUNICATION_GROWS, FALLS, throughput=points(100, 190, 300))
    assert found["state"] == "supported"
    assert for_of(found)[0]["value"] == pytest.approx((4 / 3 - 1) / 3 - (2 / 1.9 - 1), rel=1e-6)
    # A constant share of a tenth (Amdahl): 1 / (0.1 + 0.9 / p).
    constant = points(100, 100 / 0.55, 100 / 0.325)
    assert state(Cause.COMMUNICATION_GROWS, FALLS, throughput=constant) != State.SUPPORTED
    serial = finding(Cause.SERIAL_PART, FALLS, throughput=constant)
    assert serial["state"] == "supported"
    assert for_of(serial)[0]["value"] == pytest.approx(0.1)
    even = points(100, 200, 400)
    assert state(Cause.SERIAL_PART, FALLS, throughput=even) == State.RULED_OUT
    assert state(Cause.COMMUNICATION_GROWS, FALLS) == State.POSSIBLE


def test_a_drop_at_the_border_of_a_node_is_the_network() -> None:
    nodes = [1, 1, 2]
    drop = points(100, 190, 250, nodes=nodes)
    found = finding(Cause.SLOW_NETWORK, FALLS, throughput=drop)
    assert found["state"] == "supported"
    assert for_of(found)[0]["value"] == pytest.approx(1 - 250 / 4 / 95)
    assert any("NCCL_DEBUG" in check["command"] for check in found["checks"])
    smooth = points(100, 190, 375, nodes=nodes)
    assert state(Cause.SLOW_NETWORK, FALLS, throughput=smooth) == State.RULED_OUT
    assert state(Cause.SLOW_NETWORK, FALLS, throughput=points(1, 2)) == State.POSSIBLE


def test_more_stages_with_as_many_micro_batches_have_a_larger_bubble() -> None:
    found = finding(
        Cause.BUBBLE_GROWS,
        FALLS,
        throughput=points(1, 1.5, 1.4, pipeline_parallel=[1, 2, 4], micro_batches=[4, 4, 4]),
    )
    assert found["state"] == "supported"
    assert for_of(found)[0]["value"] == pytest.approx(3 / 7)
    kept = points(1, 2, 4, pipeline_parallel=[2, 2, 2], micro_batches=[4, 4, 4])
    assert state(Cause.BUBBLE_GROWS, FALLS, throughput=kept) == State.RULED_OUT


def test_layers_that_do_not_divide() -> None:
    uneven = {**MODEL, "cluster": "12xH100", "training": {"micro_batches": 16}}
    found = finding(Cause.UNEVEN_DIVISION, FALLS, **uneven)
    # 32 layers on 12 stages: the fullest has 3 of 2.67.
    assert for_of(found)[0]["value"] == pytest.approx(3 * 12 / 32 - 1)
    assert state(Cause.UNEVEN_DIVISION, FALLS) == State.POSSIBLE


def test_the_best_degree_comes_from_the_estimate_or_the_points() -> None:
    found = finding(Cause.COMMUNICATION_GROWS, FALLS, **MODEL)
    effect = remedy(found, "best_degree")["predicted_effect"]
    assert effect["after"] >= effect["before"] > 0
    measured = finding(Cause.COMMUNICATION_GROWS, FALLS, throughput=points(100, 190, 150))
    effect = remedy(measured, "best_degree")["predicted_effect"]
    assert (effect["before"], effect["after"]) == (150, 190)


def test_falling_throughput_is_seen_without_being_named() -> None:
    found = answer(throughput=points(100, 190, 150))["symptoms"]
    assert [own["symptom"] for own in found] == [FALLS]
    assert answer(throughput=points(100, 190, 300))["symptoms"] == []
