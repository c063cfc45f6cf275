"""The order of a rolling restart keeps every part of the state on some rank."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.spec import read_cost_model
from planner.estimates.checkpoints.restart_order import restart_document


def restart(cluster: str = "4x8xH100", **training: Any) -> dict[str, Any]:
    body = {"global_batch_size": 64, **training}
    return restart_document(read_cost_model("Llama-3-8B", cluster, body))


REPLICATED: dict[str, Any] = {"tensor_parallel": 2, "pipeline_parallel": 4, "data_parallel": 4}


def test_replicas_go_one_at_a_time_with_their_stages_from_the_last() -> None:
    found = restart(**REPLICATED)
    assert found["possible"]
    assert [step["replica"] for step in found["steps"]] == [0, 1, 2, 3]
    for step in found["steps"]:
        assert step["stages"] == [3, 2, 1, 0]
        assert step["state_from"]["replica"] != step["replica"]
    assert found["batch_meanwhile"]["share"] == 0.75


def test_the_steps_name_every_gpu_once() -> None:
    found = restart(**REPLICATED, context_parallel=1)
    gpus = [
        gpu
        for step in found["steps"]
        for own in step["gpus_of_stage"]
        for gpu in range(own["first"], own["last"] + 1)
    ]
    assert sorted(gpus) == list(range(32))
    # Megatron-LM's numbers: replica 1 of the last stage, after three stages of 8 GPUs.
    assert found["steps"][1]["gpus_of_stage"][0] == {"stage": 3, "first": 26, "last": 27}


@pytest.mark.parametrize(
    ("zero_stage", "alone"),
    [
        (0, []),
        (1, ["optimizer states"]),
        (2, ["optimizer states"]),
        (3, ["optimizer states", "parameters"]),
    ],
)
def test_what_zero_splits_is_copied_before_it_goes(zero_stage: int, alone: list[str]) -> None:
    found = restart(**REPLICATED, zero_stage=zero_stage)
    assert found["held_by_one_rank_alone"] == alone
    copies = any("Copy" in step["do"] for step in found["before"])
    never_both = any(rule["rule"] == "never both" for rule in found["not_down_together"])
    assert copies == never_both == bool(alone)


def test_one_replica_cannot_be_restarted_while_it_trains() -> None:
    found = restart("8xH100", tensor_parallel=2, pipeline_parallel=4)
    assert not found["possible"]
    assert found["steps"] == []
    assert found["held_by_one_rank_alone"] == ["parameters", "optimizer states"]
    assert any(step["do"] == "Write a full checkpoint." for step in found["before"])


def test_a_node_with_all_replicas_of_a_stage_takes_it_down() -> None:
    """Eight GPUs are all four replicas of a stage on two tensor ranks."""
    found = restart(**REPLICATED)
    assert [node["node"] for node in found["nodes"]] == [3, 2, 1, 0]
    assert [node["stages_kept_elsewhere"] for node in found["nodes"]] == [False] * 4
    assert found["nodes"][0]["held"] == [{"stage": 3, "replicas": [0, 1, 2, 3]}]
    assert found["nodes_rule"].startswith("4 of 4 nodes")
    spread = restart(tensor_parallel=8, pipeline_parallel=2, data_parallel=2)
    assert all(node["stages_kept_elsewhere"] for node in spread["nodes"])
    assert spread["nodes"][0]["held"] == [{"stage": 1, "replicas": [1]}]


def test_communicators_with_ranks_that_go_on_are_made_two_times() -> None:
    found = {row["kind"]: row for row in restart(**REPLICATED)["communicators"]}
    assert set(found) == {"data", "pipeline", "tensor"}
    assert found["data"]["by"] == "all replicas"
    assert found["data"]["made_anew_per_step"] == 4 * 2
    assert (found["tensor"]["by"], found["tensor"]["made_anew_per_step"]) == ("the replica", 4)
    assert found["pipeline"]["made_anew_per_step"] == 2
    assert restart("1xH100", micro_batch_size=1)["communicators"] == []
