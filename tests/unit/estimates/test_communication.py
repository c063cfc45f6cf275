"""The whole answer about communication."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.errors import SpecError
from planner.estimates.communication.estimate import estimate_communication
from planner.estimates.communication.layout import LISTED_RANKS

GPT_3 = {"tensor_parallel": 8, "pipeline_parallel": 8, "global_batch_size": 64, "zero_stage": 1}


def answer(
    training: dict[str, Any],
    cluster: Any = "16x8xA100-80GB",
    model: str = "GPT-3-175B",
    **fields: Any,
) -> dict[str, Any]:
    body = {"model": model, "cluster": cluster, "training": training, **fields}
    found = estimate_communication(body)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def racks(nodes: int, per_rack: int, gpu: str = "H100") -> dict[str, Any]:
    return {"gpu": gpu, "nodes": nodes, "gpus_per_node": 8, "nodes_per_rack": per_rack}


def test_every_rank_and_group_of_a_small_cluster() -> None:
    found = answer(GPT_3)
    assert found["ranks"]["listed"] == found["ranks"]["count"] == 128
    assert found["ranks"]["tensor"][:10] == [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]
    assert (found["ranks"]["data"][8], found["ranks"]["pipeline"][16]) == (1, 1)
    assert list(found["groups"]) == ["tensor", "data", "pipeline", "embedding"]
    for group in found["groups"].values():
        assert group["listed"] == group["count"] == len(group["groups"])
        assert {len(ranks) for ranks in group["groups"]} == {group["size"]}
    assert found["groups"]["data"]["groups"][1] == [1, 9]
    assert found["rank_order"]["rank"] == "rank = tensor + 8 x data + 16 x pipeline"
    assert found["rank_order"]["tensor_groups_inside_node"]
    assert not found["warnings"]


def test_the_parts_add_up() -> None:
    found = answer(GPT_3)
    summary = found["summary"]
    for parts in (summary["by_kind_ns"], summary["by_tier_ns"]):
        assert sum(parts.values()) == pytest.approx(summary["communication_ns"], abs=4)
    for kind, group in found["groups"].items():
        assert group["step_ns"] == summary["by_kind_ns"][kind]
        for each in group["collectives"]:
            assert each["step_ns"] == pytest.approx(
                each["call_ns"] * each["calls_per_step"], rel=1e-4
            )
            assert each["sent_bytes_per_step"] == each["sent_bytes"] * each["calls_per_step"]
    assert (summary["busiest_kind"], summary["bounded_by"]) == ("tensor", "node")


def test_sub_groups_per_tier() -> None:
    """Data groups of 16 with tensor 2: four ranks per node, four nodes in two racks."""
    training = {"tensor_parallel": 2, "pipeline_parallel": 1, "global_batch_size": 64}
    data = answer(training, racks(4, 2), "Llama-3-8B")["groups"]["data"]
    assert data["reaches"] == "across_racks"
    tiers = {tier["tier"]: tier for tier in data["tiers"]}
    assert tiers["node"]["sub_groups"][:2] == [[0, 2, 4, 6], [8, 10, 12, 14]]
    assert tiers["rack"]["sub_groups"] == [[0, 8], [16, 24], [1, 9], [17, 25]]
    assert tiers["across_racks"]["sub_groups"] == [[0, 16], [1, 17]]
    assert [tiers[tier]["algorithm"] for tier in ("node", "rack", "across_racks")] == [
        "NVLS",
        "Ring",
        "Ring",
    ]
    assert tiers["rack"]["ring_from_bytes"] == 0
    assert tiers["node"]["link"] == "NVLink"


def test_stages_are_paired_with_their_neighbours() -> None:
    training = {"tensor_parallel": 1, "pipeline_parallel": 4, "micro_batches": 4}
    cluster = {"gpu": "A100-80GB", "nodes": 2, "gpus_per_node": 2}
    tiers = answer(training, cluster, "GPT-1.5B")["groups"]["pipeline"]["tiers"]
    assert [tier["sub_groups"] for tier in tiers] == [[[0, 1], [2, 3]], [[1, 2]]]
    training["interleaving"] = 2
    tiers = answer(training, cluster, "GPT-1.5B")["groups"]["pipeline"]["tiers"]
    assert [tier["sub_groups"] for tier in tiers] == [[[0, 1], [2, 3]], [[1, 2], [3, 0]]]


def test_context_ranks_form_rings() -> None:
    training = {"tensor_parallel": 2, "pipeline_parallel": 1, "context_parallel": 4}
    found = answer({**training, "global_batch_size": 16}, "2x8xH100", "Llama-3-8B")
    assert list(found["groups"]) == ["tensor", "context", "data", "data_context"]
    (ring,) = found["groups"]["context"]["tiers"]
    assert ring["sub_groups"][:4] == [[0, 2], [2, 4], [4, 6], [6, 0]]
    assert found["groups"]["data"]["collectives"] == []
    assert found["groups"]["data"]["bounded_by"] is None
    assert "algorithm" not in found["groups"]["data"]["tiers"][0]


def test_a_large_cluster_is_bounded() -> None:
    training = {"tensor_parallel": 8, "pipeline_parallel": 16, "global_batch_size": 4096}
    found = answer(training, racks(4096, 4))
    assert found["ranks"]["listed"] == LISTED_RANKS == 4096
    assert len(json.dumps(found)) < 1_000_000
    for group in found["groups"].values():
        most = LISTED_RANKS // group["size"]
        assert group["listed"] == len(group["groups"]) == min(most, group["count"])
    data = found["groups"]["data"]
    assert data["rule"] == (
        "rank = first + 8 x data with data 0 to 255; first = tensor + 2048 x pipeline, one group "
        "for each tensor (0 to 7), pipeline (0 to 15)"
    )
    assert found["topology"]["listed"] == 512


def test_a_group_too_long_to_list_has_its_rule() -> None:
    training = {"tensor_parallel": 1, "pipeline_parallel": 1, "global_batch_size": 8192}
    data = answer(training, racks(1024, 4), "GPT-1.5B")["groups"]["data"]
    assert (data["size"], data["listed"], data["groups"]) == (8192, 0, [])
    assert data["rule"] == "rank = data; one group with data 0 to 8191"
    assert [tier["ranks"] for tier in data["tiers"]] == [8, 4, 256]


def test_tensor_groups_stay_inside_a_node() -> None:
    with pytest.raises(SpecError) as caught:
        answer({**GPT_3, "tensor_parallel": 16})
    assert caught.value.path == ("training", "tensor_parallel")
    assert "inside one node" in caught.value.message
    assert "1, 2, 4, 8" in caught.value.remedy


def test_expert_groups_beyond_a_node() -> None:
    training = {"tensor_parallel": 2, "pipeline_parallel": 2, "expert_parallel": 8}
    found = answer({**training, "global_batch_size": 64}, "8x8xH100", "Mixtral-8x7B")
    (warning,) = found["warnings"]
    assert warning.startswith("8 of 8 expert groups reach beyond a node")
    assert "expert_parallel 1, 2, 4" in warning
    assert found["rank_order"]["expert"] == "expert = data mod 8"
    inside = answer(
        {**training, "expert_parallel": 4, "global_batch_size": 64}, "8x8xH100", "Mixtral-8x7B"
    )
    assert not inside["warnings"]
    assert inside["groups"]["expert"]["groups"][0] == [0, 2, 4, 6]


def test_groups_that_only_partly_lie_in_nodes() -> None:
    """Context groups of 3 with tensor 2 cover 6 of 8 GPUs: some straddle a node."""
    training = {"tensor_parallel": 2, "pipeline_parallel": 1, "context_parallel": 3}
    training |= {"data_parallel": 4, "global_batch_size": 8, "sequence": 6144}
    found = answer(training, "3x8xA100-80GB", "Llama-3-8B")
    reach = found["groups"]["context"]["groups_by_reach"]
    assert reach == {"node": 4, "rack": 4, "across_racks": 0}
    tiers = {tier["tier"]: tier["sub_groups"] for tier in found["groups"]["context"]["tiers"]}
    assert tiers["node"][:3] == [[0, 2], [2, 4], [4, 0]]
    assert [pair for pair in tiers["rack"] if 6 in pair] == [[6, 8], [10, 6]]
    assert found["warnings"][0].startswith("4 of 8 context groups reach beyond a node")


def test_idle_gpus_and_links_without_nvlink() -> None:
    training = {"tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": 2}
    found = answer({**training, "micro_batches": 2}, "2x8xL40S", "Llama-3-8B")
    assert found["topology"]["idle_gpus"] == 8
    assert found["topology"]["nodes_in_use"] == 1
    assert found["warnings"][0].startswith("8 of 16 GPUs have no rank")
    assert "PCIe" in found["warnings"][1]


def test_a_partly_used_node() -> None:
    training = {"tensor_parallel": 2, "pipeline_parallel": 3, "data_parallel": 1}
    found = answer({**training, "micro_batches": 2}, "1x8xH100", "Llama-3-8B")
    (node,) = found["topology"]["ranks_by_node"]
    assert (node["ranks"], node["idle_gpus"], node["pipeline"]) == ([0, 5], 2, [0, 1, 2])


def test_one_gpu_has_nobody_to_talk_to() -> None:
    found = answer({"micro_batches": 1}, "1xH100", "GPT-1.5B", in_network_reduction=True)
    assert found["groups"] == {}
    assert found["summary"]["communication_ns"] == 0
    assert found["summary"]["busiest_kind"] is None
    assert found["warnings"] == [
        "in_network_reduction changes nothing: no group reaches beyond a node."
    ]


def test_the_other_order_is_recommended_where_it_saves_time() -> None:
    """Many micro-batches over slow racks: hops between racks cost more than the reduction."""
    cluster = racks(8, 1) | {"inter_rack_bytes_per_s": 2e9}
    training = {"tensor_parallel": 2, "pipeline_parallel": 4, "data_parallel": 8}
    found = answer({**training, "micro_batches": 512}, cluster, "GPT-1.5B")
    default, other = found["rank_order_alternatives"]
    assert (default["order"], other["order"]) == ("tp-cp-dp-pp", "tp-cp-pp-dp")
    assert other["communication_ns"] < 0.98 * default["communication_ns"]
    assert (default["recommended"], other["recommended"]) == (False, True)
    assert other["megatron_flag"] == "--use-tp-pp-dp-mapping"
    assert any("--use-tp-pp-dp-mapping" in warning for warning in found["warnings"])
    assert default["communication_ns"] == found["summary"]["communication_ns"]
    assert found["groups"]["pipeline"]["groups"][0] == [0, 16, 32, 48]


def test_the_default_order_stays_where_it_is_better() -> None:
    cluster = racks(8, 1) | {"inter_rack_bytes_per_s": 2e9}
    training = {"tensor_parallel": 2, "pipeline_parallel": 4, "data_parallel": 8}
    found = answer({**training, "micro_batches": 4}, cluster, "GPT-1.5B")
    default, other = found["rank_order_alternatives"]
    assert default["recommended"]
    assert not other["recommended"]
    assert "more communication time" in other["reason"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"context_parallel": 2, "data_parallel": 4}, "context parallelism"),
        ({"zero_stage": 3}, "FSDP"),
    ],
)
def test_an_order_that_megatron_cannot_take(extra: dict[str, Any], words: str) -> None:
    cluster = racks(8, 1) | {"inter_rack_bytes_per_s": 2e9}
    training = {"tensor_parallel": 2, "pipeline_parallel": 4, "data_parallel": 8, **extra}
    found = answer({**training, "micro_batches": 512}, cluster, "GPT-1.5B")
    other = found["rank_order_alternatives"][1]
    assert not other["usable"]
    assert not other["recommended"]
    assert words in other["reason"]


def test_no_other_order_for_experts_or_without_stages() -> None:
    training = {"tensor_parallel": 2, "expert_parallel": 4, "global_batch_size": 64}
    cluster = "8x8xH100"
    found = answer({**training, "pipeline_parallel": 2}, cluster, "Mixtral-8x7B")
    assert found["rank_order_alternatives"][1]["communication_ns"] is None
    found = answer({**training, "pipeline_parallel": 1}, cluster, "Mixtral-8x7B")
    assert len(found["rank_order_alternatives"]) == 1


def test_switches_that_add_up_change_advice_and_environment() -> None:
    training = {"tensor_parallel": 8, "pipeline_parallel": 1, "global_batch_size": 64}
    plain = answer(training, "8x8xH100", "Llama-3-8B")
    found = answer(training, "8x8xH100", "Llama-3-8B", in_network_reduction=True)
    assert [tier["algorithm"] for tier in found["groups"]["data"]["tiers"]] == ["CollNet"]
    assert [tier["algorithm"] for tier in plain["groups"]["data"]["tiers"]] == ["Ring"]
    assert "export NCCL_COLLNET_ENABLE=1" in found["environment"]["exports"]
    assert "export NCCL_COLLNET_ENABLE=1" not in plain["environment"]["exports"]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"in_network_reduction": "yes"}, ("in_network_reduction",)),
        ({"algorithm": "ring"}, ("algorithm",)),
    ],
)
def test_fields_at_fault_are_named(fields: dict[str, Any], path: tuple[str, ...]) -> None:
    with pytest.raises(SpecError) as caught:
        answer(GPT_3, **fields)
    assert caught.value.path == path
