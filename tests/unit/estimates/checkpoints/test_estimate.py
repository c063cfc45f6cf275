"""The whole estimate: sizes, rates, plans, notice and words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import SpecError
from planner.estimates.checkpoints.estimate import estimate_checkpoints
from planner.estimates.checkpoints.intervals import young_s
from tests.unit.estimates.checkpoints.daly import expected_s

LLAMA: dict[str, Any] = {
    "model": "Llama-3-70B",
    "cluster": "64x8xH100",
    "training": {
        "global_batch_size": 1024,
        "tensor_parallel": 8,
        "pipeline_parallel": 4,
        "zero_stage": 1,
    },
}
PARAMETERS = 70_553_706_496


def estimate(**fields: Any) -> dict[str, Any]:
    return estimate_checkpoints({**LLAMA, **fields})


def plan(answer: dict[str, Any], levels: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(own for own in answer[levels] if own["name"] == name)
    return found


def test_a_full_checkpoint_has_parameters_and_optimizer_states_once() -> None:
    answer = estimate()
    assert answer["full"]["bytes"] == 14 * PARAMETERS
    assert answer["fast"]["bytes"] == 2 * PARAMETERS
    assert estimate(fast_contents="state")["fast"]["bytes"] == 14 * PARAMETERS


@pytest.mark.parametrize(
    ("training", "each"),
    [
        ({"precision": "fp32"}, 12),
        ({"precision": "fp16"}, 14),
        ({"optimizer": "sgd_momentum"}, 10),
        ({"optimizer": "sgd"}, 6),
        ({"precision": "fp32", "optimizer": "sgd"}, 4),
    ],
)
def test_gradients_and_their_copies_are_not_kept(training: dict[str, Any], each: int) -> None:
    answer = estimate(training={**LLAMA["training"], **training})
    assert answer["full"]["bytes"] == each * PARAMETERS


def test_what_was_measured_counts() -> None:
    whole, measured = estimate(), estimate(state_bytes=28 * PARAMETERS, parameters_bytes=10**9)
    assert measured["full"]["bytes"] == 28 * PARAMETERS
    assert measured["full"]["bytes_per_gpu"] == 2 * whole["full"]["bytes_per_gpu"]
    assert measured["full"]["write_ns"] == pytest.approx(2 * whole["full"]["write_ns"])
    assert measured["fast"]["bytes"] == 10**9


def test_storage_takes_what_nodes_give_and_no_more_than_it_can() -> None:
    each = estimate(storage_bytes_per_s_per_node=3e9)["full"]
    assert each["bytes_per_s"] == 64 * 3e9
    both = estimate(storage_bytes_per_s_per_node=3e9, storage_bytes_per_s=1e10)["full"]
    assert both["bytes_per_s"] == 1e10
    assert both["write_ns"] == pytest.approx(14 * PARAMETERS / 1e10 * 1e9)
    slow = estimate(storage_bytes_per_s_per_node=3e9, storage_bytes_per_s=1e13)["full"]
    assert slow["bytes_per_s"] == 64 * 3e9


def test_gpus_behind_one_switch_share_the_way_to_host_memory() -> None:
    own, shared = (
        estimate(cluster={"gpu": "H100", "nodes": 64, "gpus_per_node": 8, "pcie_topology": kind})
        for kind in ("full_mesh", "switch")
    )
    assert shared["fast"]["write_ns"] == pytest.approx(2 * own["fast"]["write_ns"], rel=1e-6)
    assert shared["full"]["snapshot_ns"] == pytest.approx(2 * own["full"]["snapshot_ns"], rel=1e-6)


def test_ssds_are_as_fast_as_the_cluster_says_or_the_request() -> None:
    with pytest.raises(SpecError) as caught:
        estimate(fast_storage="ssd")
    assert caught.value.path == ("fast_bytes_per_s_per_node",)
    assert estimate(fast_storage="ssd", fast_bytes_per_s_per_node=7e9)["fast"]["bytes_per_s"] == 7e9
    cluster = {
        "gpu": "H100",
        "nodes": 64,
        "gpus_per_node": 8,
        "ssd_bytes_per_s": 12e9,
        "ssd_memory_bytes": 10**13,
    }
    assert estimate(cluster=cluster, fast_storage="ssd")["fast"]["bytes_per_s"] == 12e9


@pytest.mark.parametrize(
    ("fields", "per_day"),
    [
        ({}, 512 * 24 / 50_700),
        ({"gpu_mtbf_hours": 1000}, 512 * 24 / 1000),
        ({"node_mtbf_hours": 1000}, 64 * 24 / 1000),
        ({"failures_per_day": 3}, 3),
    ],
)
def test_failures_add_up(fields: dict[str, Any], per_day: float) -> None:
    failures = estimate(**fields)["failures"]
    assert failures["per_day"] == pytest.approx(per_day)
    assert failures["mtbf_ns"] == pytest.approx(86_400e9 / per_day)


def test_failures_are_told_in_one_way() -> None:
    with pytest.raises(SpecError) as caught:
        estimate(failures_per_day=1, node_mtbf_hours=100)
    assert caught.value.path == ("node_mtbf_hours",)


def test_the_default_is_five_minutes_and_an_hour_in_whole_iterations() -> None:
    answer = estimate(iteration_ns=7_000_000_000)
    default = plan(answer, "two_levels", "default")
    assert default["fast_every_iterations"] == round(300 / 7)
    assert default["full_every_iterations"] == 43 * round(3600 / (43 * 7))
    assert default["full_every_ns"] == default["full_every_iterations"] * 7_000_000_000
    assert plan(answer, "one_level", "default")["full_every_iterations"] == round(3600 / 7)


def test_youngs_plan_is_his_formula() -> None:
    answer = estimate(iteration_ns=1_000_000, failures_per_day=10)
    cost, mtbf = answer["full"]["blocking_ns"] / 1e9, 8640
    young = plan(answer, "one_level", "young")
    assert young["full_every_ns"] / 1e9 == pytest.approx(young_s(cost, mtbf), rel=1e-4)
    two = plan(answer, "two_levels", "young")
    assert two["fast_every_ns"] / 1e9 == pytest.approx(
        young_s(answer["fast"]["blocking_ns"] / 1e9, mtbf / 0.5), abs=2e-3
    )


def test_the_useful_share_and_the_loss_are_those_of_the_complete_model() -> None:
    answer = estimate(failures_per_day=10)
    default, full = plan(answer, "one_level", "default"), answer["full"]
    work, cost = default["full_every_ns"] / 1e9, full["blocking_ns"] / 1e9
    taken = expected_s(work, cost, 8640, full["restart_ns"] / 1e9)
    assert default["useful_share"] == pytest.approx(work / taken)
    assert default["overhead_share"] == pytest.approx(cost / (work + cost))
    failures = taken / 8640
    lost = (taken - work - cost) / failures
    assert default["loss_per_failure_ns"] == pytest.approx(lost * 1e9)
    # Half an interval of work, and the restart.
    assert lost == pytest.approx((work + cost) / 2 + full["restart_ns"] / 1e9, rel=0.15)
    hours = (1 - default["useful_share"]) * 24 * 512
    assert default["lost_gpu_hours_per_day"] == pytest.approx(hours)


fields = st.fixed_dictionaries(
    {
        "failures_per_day": st.floats(1e-3, 1e3),
        "storage_bytes_per_s_per_node": st.floats(1e8, 1e11),
        "fast_share": st.floats(0.01, 0.99),
        "blocking_share": st.floats(0.01, 1),
        "fast_blocking_share": st.floats(0.01, 1),
        "fast_contents": st.sampled_from(["parameters", "state"]),
        "iteration_ns": st.integers(1_000_000, 600_000_000_000),
        "preemption_notice_s": st.floats(1, 1000),
        "reschedule_s": st.floats(0, 3000),
    }
)


@settings(max_examples=40, deadline=None)
@given(fields=fields)
def test_the_best_is_no_worse_than_any_rule_and_no_share_leaves_its_bounds(
    fields: dict[str, Any],
) -> None:
    answer = estimate(**fields)
    json.dumps(answer, allow_nan=False)
    for levels in ("one_level", "two_levels"):
        best = plan(answer, levels, "best")["useful_share"]
        for own in answer[levels]:
            assert 0 <= own["useful_share"] <= best <= 1
            assert 0 <= own["overhead_share"] < 1
            assert own["full_every_iterations"] >= 1
            lag = answer["full"]["write_ns"] - answer["full"]["blocking_ns"]
            assert own["full_every_ns"] >= lag - fields["iteration_ns"] / 1e6
            assert own["full_every_ns"] == own["full_every_iterations"] * fields["iteration_ns"]
    assert answer["recommended"]["useful_share"] == max(
        plan(answer, levels, "best")["useful_share"] for levels in ("one_level", "two_levels")
    )


def test_written_in_the_background_they_cost_less_and_come_more_often() -> None:
    waits, background = (
        estimate(failures_per_day=20, storage_bytes_per_s=2e9, blocking_share=share)
        for share in (1.0, 0.05)
    )
    one, other = plan(waits, "one_level", "best"), plan(background, "one_level", "best")
    assert other["full_every_ns"] < one["full_every_ns"]
    assert other["useful_share"] > one["useful_share"]
    full = background["full"]
    assert other["full_every_ns"] >= full["write_ns"] - full["blocking_ns"]


@pytest.mark.parametrize(
    ("notice", "storage", "action", "fitting"),
    [
        (60.0, 1e11, "write_full", ["full", "parameters", "fast"]),
        (20.0, 5e10, "write_parameters", ["parameters", "fast"]),
        (20.0, 1e9, "fall_back", ["fast"]),
        (5.0, 1e12, "fall_back", []),
    ],
)
def test_a_notice_allows_what_fits_and_outlives_the_node(
    notice: float, storage: float, action: str, fitting: list[str]
) -> None:
    found = estimate(
        preemption_notice_s=notice,
        storage_bytes_per_s=storage,
        storage_bytes_per_s_per_node=1e12,
        iteration_ns=10_000_000_000,
    )["preemption"]
    assert found["action"] == action
    assert [own["what"] for own in found["options"] if own["fits"]] == fitting
    assert [own["what"] for own in found["options"] if own["survives"]] == ["full", "parameters"]
    needed = found["needed_bytes_per_s"]
    if notice < 10:
        assert needed is None
        assert any("shorter than an iteration" in line for line in found["advice"])
    else:
        assert needed == pytest.approx(14 * PARAMETERS / (notice - 10))
        assert (needed <= storage) == (action == "write_full")
    assert (len(found["advice"]) == 1) == (action == "write_full")


def test_without_notice_there_is_nothing_to_say_of_it() -> None:
    assert estimate()["preemption"] is None


def test_restarts_take_what_they_are_made_of() -> None:
    answer = estimate(detection_s=10, reschedule_s=20, load_s=30)
    assert answer["full"]["restart_ns"] == 60e9
    fast = answer["fast"]
    assert fast["restart_ns"] == pytest.approx(30e9 + fast["load_ns"])
    loaded = estimate(storage_bytes_per_s=1e11)["full"]["load_ns"]
    # Parameters by every replica, the optimizer's part by the one that holds it.
    assert loaded == pytest.approx((16 * 2 + 12) * PARAMETERS / 1e11 * 1e9, rel=0.02)


def test_warnings_name_what_is_wrong_with_the_defaults() -> None:
    calm = estimate(fast_contents="state")
    assert not any("every 5 minutes" in warning for warning in calm["warnings"])
    rough = estimate(gpu_mtbf_hours=500, fast_contents="state")
    assert any("every 5 minutes" in warning for warning in rough["warnings"])
    assert not any("optimizer states" in warning for warning in rough["warnings"])
    assert any("no optimizer states" in warning for warning in estimate()["warnings"])
    hopeless = estimate(failures_per_day=500)
    assert any("Less than half" in warning for warning in hopeless["warnings"])


def test_host_memory_has_to_hold_two() -> None:
    def warned(size: int) -> bool:
        cluster = {"gpu": "H100", "nodes": 64, "gpus_per_node": 8, "host_memory_bytes": size}
        return any("host memory per node" in w for w in estimate(cluster=cluster)["warnings"])

    assert warned(10**10)
    assert not warned(10**12)
