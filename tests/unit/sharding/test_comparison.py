"""The plan beside its baselines: figures that belong together, under one cost model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.sharding.instance import totals
from tests.unit.sharding.posted import (
    Body,
    document,
    extremes,
    formulation,
    instance_of,
    repeated,
    tensor,
    two_layers,
)

NAMES = [
    "Megatron-LM",
    "least communication (Alpa)",
    "least time with checkpointing (Colossal-Auto)",
    "data parallel",
    "fully sharded data parallel",
]
MEGATRON, COMMUNICATION, TIME, DATA, SHARDED = range(5)
BODY: Body = {"graph": two_layers(batch=64, width=256), "devices": 4}


def rows_of(body: Body) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = document(body)["baselines"]
    return rows


def test_every_baseline_has_a_row_that_says_what_is_modelled() -> None:
    rows = rows_of(BODY)
    assert [row["name"].split(" (tensor")[0] for row in rows] == NAMES
    for row in rows:
        assert row["modelled"].endswith(".")
        assert row["not_modelled"].endswith(".")
        assert row["applicable"]
        assert row["reason"] is None
        assert len(row["strategies"]) == 4
    assert [row["proven"] for row in rows] == [None, True, True, None, None]
    json.dumps(rows, allow_nan=False)


@pytest.mark.parametrize("communication", ["volume", "time"])
@pytest.mark.parametrize("zero_stage", [0, 3])
def test_their_figures_are_those_of_the_plans_own_costs(
    communication: str, zero_stage: int
) -> None:
    body = {
        **BODY,
        "devices": "2x2xA100-40GB",
        "communication": communication,
        "training": {"zero_stage": zero_stage},
        "alpha": 0.5,
    }
    result = document(body)
    instance = instance_of(result)
    for row in result["baselines"][: 5 if zero_stage == 3 else 4]:
        choice = [
            [own.name for own in operator.strategies].index(name)
            for operator, name in zip(instance.operators, row["strategies"], strict=True)
        ]
        sums = totals(instance, choice)
        assert row["redundant_bytes"] == sums.redundant_bytes
        assert row["communication_bytes"] == sums.communication_bytes
        assert row["resharding_bytes"] == sums.resharding_bytes
        assert row["memory_bytes"] == sums.memory_bytes
        assert row["objective"] == sums.objective(0.5) >= result["plan"]["objective"]


def test_throughput_is_relative_to_megatrons() -> None:
    result = document(BODY)
    reference = result["baselines"][MEGATRON]["predicted_step_ns"]
    assert result["baselines"][MEGATRON]["relative_throughput"] == 1
    for row in (result["plan"], *result["baselines"]):
        assert row["predicted_step_ns"] > 0
        assert row["relative_throughput"] == pytest.approx(
            reference / row["predicted_step_ns"], rel=1e-3
        )
    fastest = result["baselines"][TIME]["predicted_step_ns"]
    others = [row["predicted_step_ns"] for row in result["baselines"][:4]]
    # All but the optimizer's part, which is no part of its objective.
    assert fastest <= 1.05 * min(*others, result["plan"]["predicted_step_ns"])


def test_nothing_that_fits_sends_less_than_the_least_communication() -> None:
    result = document({**BODY, "device_memory_bytes": 10**8})
    rows = [result["plan"], *result["baselines"][:4]]
    least = result["baselines"][COMMUNICATION]
    assert all(
        least["communication_bytes"] + least["resharding_bytes"]
        <= row["communication_bytes"] + row["resharding_bytes"]
        for row in rows
    )


def test_a_baseline_that_does_not_fit_says_so() -> None:
    free = document(BODY)
    limit = free["baselines"][DATA]["memory_bytes"] - 1
    rows = rows_of({**BODY, "device_memory_bytes": limit})
    assert not rows[DATA]["fits"]
    assert rows[SHARDED]["fits"]
    assert rows[DATA]["memory_bytes"] == limit + 1
    for row in rows:
        assert row["fits"] == (max(row["memory_bytes"], row["predicted_peak_bytes"]) <= limit)


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2, 0.5])
def test_the_least_time_with_checkpointing_fits_where_the_plan_does(share: float) -> None:
    """What is kept alone would let it hold too much for a moment."""
    body: Body = {"transformer": {"preset": "BERT-Large", "layers": 4}, "devices": 4}
    least, most = extremes(body)
    limit = int(least + share * (most - least))
    result = document({**body, "device_memory_bytes": limit})
    assert result["certificate"]["fits"]
    row, others = result["baselines"][TIME], result["baselines"][:TIME]
    assert row["fits"]
    assert row["predicted_peak_bytes"] <= limit
    if not row["proven"]:
        assert "whose predicted peak" in row["note"]
    only_the_peak_is_too_high = [
        other for other in others if other["memory_bytes"] <= limit < other["predicted_peak_bytes"]
    ]
    for other in only_the_peak_is_too_high:
        assert (other["proven"] is None) == (other["note"] is None)


@pytest.mark.parametrize("zero_stage", [0, 3])
@pytest.mark.parametrize("alpha", [0.01, 1, 100])
def test_exactly_those_that_keep_less_than_the_plan_say_why(zero_stage: int, alpha: float) -> None:
    body = {
        "transformer": {"preset": "GPT-2", "layers": 2},
        "devices": 4,
        "alpha": alpha,
        "training": {"zero_stage": zero_stage},
    }
    result = document(body)
    kept = result["plan"]["memory_bytes"]
    rows = result["baselines"]
    for row in rows:
        assert (row["note"] is not None) == (row["memory_bytes"] < kept)
    sharded = rows[SHARDED]["note"]
    if sharded is not None:
        assert ("ZeRO stage 3 divides what stage 0 keeps whole" in sharded) == (zero_stage == 0)


def test_pins_bind_the_plan_and_not_the_baselines() -> None:
    free = document(BODY)
    pinned = document({**BODY, "pin": {"up": "d4-r1-c1"}, "forbid": {"down": ["d4-r1-c1"]}})
    figures = [
        [{key: value for key, value in row.items() if key != "note"} for row in result["baselines"]]
        for result in (free, pinned)
    ]
    assert figures[0] == figures[1]
    assert pinned["plan"]["predicted_step_ns"] > 0
    same = document({**BODY, "pin": dict(zip(["x", "up"], named(free)[:2], strict=True))})
    assert same["plan"]["predicted_step_ns"] == free["plan"]["predicted_step_ns"]
    assert same["plan"]["relative_throughput"] == free["plan"]["relative_throughput"]


def named(result: Body) -> list[str]:
    return [row["strategy"] for row in result["plan"]["operators"]]


def test_fully_sharded_shows_what_a_higher_stage_would_save() -> None:
    rows = rows_of(BODY)
    assert rows[SHARDED]["memory_bytes"] < rows[DATA]["memory_bytes"]
    assert rows[SHARDED]["redundant_bytes"] == 0
    assert rows[SHARDED]["strategies"] == rows[DATA]["strategies"]
    same = rows_of({**BODY, "training": {"zero_stage": 3}})
    figures = ("memory_bytes", "communication_bytes", "predicted_step_ns", "redundant_bytes")
    assert all(same[DATA][key] == same[SHARDED][key] == rows[SHARDED][key] for key in figures)


def test_layers_folded_and_written_out_compare_alike() -> None:
    body = {"graph": repeated(3, batch=64, width=256), "devices": 4}
    folded, exact = document(body), document({**body, "solver": {"exact": True}})
    for one, other in zip(folded["baselines"], exact["baselines"], strict=True):
        if one["name"].startswith("least"):
            continue
        for key in ("redundant_bytes", "communication_bytes", "resharding_bytes"):
            assert one[key] == other[key]
        assert one["predicted_step_ns"] == pytest.approx(other["predicted_step_ns"], abs=2)


def test_where_nothing_takes_any_time_nothing_is_compared() -> None:
    view = {
        "name": "y",
        "kind": "reshape",
        "inputs": ["x"],
        "outputs": [tensor("y", 4, 4)],
        "attributes": {"is_view": True},
    }
    graph = {"inputs": [tensor("x", 4, 2, 2)], "operators": [view]}
    result = document({"graph": graph, "devices": 1})
    assert result["plan"]["predicted_step_ns"] == 0
    assert result["plan"]["relative_throughput"] is None
    assert {row["relative_throughput"] for row in result["baselines"]} == {None}


def test_a_slower_network_slows_what_is_sent_over_it() -> None:
    near, far = (
        document({**BODY, "devices": devices}) for devices in ("1x4xA100-40GB", "4x1xA100-40GB")
    )
    assert (
        far["baselines"][DATA]["predicted_step_ns"] > near["baselines"][DATA]["predicted_step_ns"]
    )
    assert far["baselines"][MEGATRON]["name"] == "Megatron-LM (tensor 1, data 4)"
    assert formulation({**BODY, "devices": "4x1xA100-40GB"}).settings.devices.devices_per_node == 1
