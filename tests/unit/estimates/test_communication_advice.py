"""Which algorithm suits what, and the one environment for the process."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.hardware import Cluster, read_cluster
from planner.cost.routes import Tier
from planner.cost.spec import read_cost_model
from planner.estimates.communication.algorithms import Advice, Part, advise, has_nvls
from planner.estimates.communication.collectives import Collective, Operation
from planner.estimates.communication.groups import Kind
from planner.estimates.communication.nccl import Needs, nccl_environment

MIB, GIB = 2**20, 2**30


def cluster_of(gpu: str, per_node: int = 8) -> Cluster:
    return read_cluster({"gpu": gpu, "nodes": 64, "gpus_per_node": per_node, "nodes_per_rack": 16})


def collective(operation: Operation, ranks: int, size: int, seconds: float = 1.0) -> Collective:
    return Collective(Kind.DATA, operation, "", ranks, size, 0, 1, seconds, Tier.RACK)


def advice(
    part: Part,
    sent: Collective,
    gpu: str = "A100-80GB",
    *,
    in_network: bool = False,
    per_node: int = 8,
) -> Advice:
    return advise(cluster_of(gpu, per_node), part, sent, in_network=in_network)


@given(st.integers(3, 512), st.integers(1, 8), st.integers(1, 2**36))
def test_ring_and_tree_cross_where_they_say(nodes: int, per_node: int, size: int) -> None:
    """2 (n-1) steps against 2 log2 n, 2 (n-1)/n S against 2 S at 92 % of the rate."""
    part = Part(Tier.RACK, nodes, per_node)
    sent = collective(Operation.ALL_REDUCE, nodes * per_node, size)
    found = advice(part, sent)
    assert found.ring_s is not None
    assert found.tree_s is not None
    assert found.crossover_bytes is not None
    levels = (nodes - 1).bit_length()
    rate, latency_s, memory = per_node * 25e9 * 0.8, 20e-6, 2039e9 * 0.7
    in_memory = 2 * size / memory
    ring_s = 2 * (nodes - 1) * (latency_s + size / nodes / rate) + in_memory
    tree_s = 2 * levels * latency_s + 2 * size / (0.92 * rate) + in_memory
    assert found.ring_s == pytest.approx(ring_s, rel=1e-9)
    assert found.tree_s == pytest.approx(tree_s, rel=1e-9, abs=1e-12)
    assert (found.algorithm == "Ring") == (found.ring_s <= found.tree_s)
    if abs(size - found.crossover_bytes) > 1 + 1e-6 * size:
        assert (size > found.crossover_bytes) == (found.ring_s < found.tree_s)


def test_many_nodes_move_the_crossover_up() -> None:
    sizes = [
        advice(
            Part(Tier.RACK, nodes, 1), collective(Operation.ALL_REDUCE, nodes, MIB)
        ).crossover_bytes
        for nodes in (4, 16, 64, 256)
    ]
    assert sizes == sorted(sizes, key=lambda size: size or 0)
    assert sizes[-1] is not None
    assert sizes[-1] > 100 * MIB


def test_two_single_ranks_have_nothing_to_gain_from_a_tree() -> None:
    found = advice(Part(Tier.RACK, 2, 1), collective(Operation.ALL_REDUCE, 2, GIB))
    assert (found.algorithm, found.crossover_bytes) == ("Ring", 0)


def test_two_full_nodes_want_the_tree() -> None:
    """NVIDIA/nccl#946: of a tree half as much crosses between two nodes as of a ring."""
    part, sent = Part(Tier.RACK, 2, 8), collective(Operation.ALL_REDUCE, 16, GIB, seconds=0.02)
    assert advice(part, sent).algorithm == "Tree"
    assert advice(part, sent, "H100").algorithm == "NVLSTree"
    quick = collective(Operation.ALL_REDUCE, 16, GIB, seconds=0.001)
    assert advice(part, quick).algorithm == "Ring"


@pytest.mark.parametrize(
    ("gpu", "ranks", "algorithm"),
    [("H100", 8, "NVLS"), ("B200", 4, "NVLS"), ("H100", 2, "Ring"), ("A100-80GB", 8, "Ring")],
)
def test_all_reduce_in_a_node(gpu: str, ranks: int, algorithm: str) -> None:
    part = Part(Tier.NODE, ranks, 1)
    found = advice(part, collective(Operation.ALL_REDUCE, ranks, GIB), gpu)
    assert found.algorithm == algorithm
    assert "chain" in found.reason


def test_nvls_needs_an_nvswitch() -> None:
    assert has_nvls(cluster_of("H100"))
    assert not has_nvls(cluster_of("H100", 4))
    assert not has_nvls(cluster_of("L40S"))


@pytest.mark.parametrize("operation", [Operation.ALL_GATHER, Operation.REDUCE_SCATTER])
def test_halves_have_no_tree(operation: Operation) -> None:
    """Latency makes PAT worth it, which takes one rank per node."""
    assert advice(Part(Tier.NODE, 8, 1), collective(operation, 8, GIB), "H100").algorithm == "Ring"
    waiting, sending = (collective(operation, 64, MIB, seconds) for seconds in (1.5e-3, 1.0))
    assert advice(Part(Tier.RACK, 64, 1), waiting).algorithm == "PAT"
    assert advice(Part(Tier.RACK, 64, 1), sending).algorithm == "Ring"
    assert advice(Part(Tier.RACK, 8, 8), waiting).algorithm == "Ring"


def test_switches_that_add_up() -> None:
    sent = collective(Operation.ALL_REDUCE, 16, GIB)
    assert advice(Part(Tier.RACK, 16, 1), sent, in_network=True).algorithm == "CollNet"
    assert advice(Part(Tier.NODE, 8, 1), sent, in_network=True).algorithm == "Ring"
    gather = collective(Operation.ALL_GATHER, 16, GIB)
    assert advice(Part(Tier.RACK, 16, 1), gather, in_network=True).algorithm == "Ring"


@pytest.mark.parametrize("operation", [Operation.SEND_RECEIVE, Operation.ALL_TO_ALL])
def test_direct_sends_have_no_algorithm(operation: Operation) -> None:
    assert (
        advice(Part(Tier.RACK, 8, 1), collective(operation, 8, GIB)).algorithm == "point-to-point"
    )


def environment(
    training: dict[str, Any],
    cluster: Any = "4x8xA100-80GB",
    needs: Needs | None = None,
    model: str = "Llama-3-8B",
) -> dict[str, Any]:
    costs = read_cost_model(model, cluster, {"micro_batches": 4, **training})
    return nccl_environment(costs, needs or Needs(("Ring",), True, False))


def names(settings: list[dict[str, Any]]) -> list[str]:
    return [setting["name"] for setting in settings]


TENSOR = {"tensor_parallel": 8, "pipeline_parallel": 1}


def test_one_environment_that_leaves_the_algorithm_to_nccl() -> None:
    found = environment(TENSOR, needs=Needs(("NVLS", "Ring", "Tree"), True, False))
    assert found["exports"] == ["export CUDA_DEVICE_MAX_CONNECTIONS=1"]
    assert found["scope"].startswith("process")
    unset = {setting["name"]: setting for setting in found["leave_unset"]}
    assert {"NCCL_ALGO", "NCCL_PROTO", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME"} <= unset.keys()
    assert "NVLS, Ring, Tree" in unset["NCCL_ALGO"]["reason"]
    assert {"NCCL_SHM_DISABLE", "NCCL_NSOCKS_PERTHREAD"} <= set(names(found["never"]))


@pytest.mark.parametrize(
    "training", [TENSOR, {**TENSOR, "zero_stage": 3}, {"pipeline_parallel": 1}, {**TENSOR}]
)
@pytest.mark.parametrize("cluster", ["4x8xA100-80GB", "4x8xB200", "4x8xL40S"])
@pytest.mark.parametrize("in_network", [False, True])
def test_nothing_is_both_set_and_advised_against(
    training: dict[str, Any], cluster: str, in_network: bool
) -> None:
    found = environment(training, cluster, Needs(("Ring",), True, in_network))
    chosen, others = names(found["variables"]), names(found["leave_unset"]) + names(found["never"])
    assert not set(chosen) & set(others)
    assert len(others) == len(set(others))
    for setting in [*found["variables"], *found["flags"], *found["leave_unset"], *found["never"]]:
        assert setting["reason"]
        assert setting["source"]
    assert ("CUDA_DEVICE_MAX_CONNECTIONS" in chosen) != ("CUDA_DEVICE_MAX_CONNECTIONS" in others)


def test_one_hardware_queue_only_where_it_helps() -> None:
    """Megatron-LM: before Blackwell, with tensor or context parallelism, without FSDP."""
    name = "CUDA_DEVICE_MAX_CONNECTIONS"
    assert name in names(environment(TENSOR)["variables"])
    context = {"pipeline_parallel": 1, "context_parallel": 4}
    assert name in names(environment(context)["variables"])
    assert name not in names(environment(TENSOR, "4x8xB200")["variables"])
    assert name not in names(environment({"pipeline_parallel": 4})["variables"])
    sharded = environment({**TENSOR, "zero_stage": 3})
    assert name not in names(sharded["variables"])
    reason = next(each["reason"] for each in sharded["leave_unset"] if each["name"] == name)
    assert "FSDP" in reason


def test_experts_have_another_wish_for_hardware_queues() -> None:
    training = {"tensor_parallel": 2, "pipeline_parallel": 1, "expert_parallel": 4}
    (queues,) = environment(training, model="Mixtral-8x7B")["variables"]
    assert "--overlap-moe-expert-parallel-comm" in queues["reason"]


def test_collnet_only_where_the_network_can_and_is_used() -> None:
    assert "NCCL_COLLNET_ENABLE" not in names(environment(TENSOR)["variables"])
    inside = Needs(("Ring",), False, True)
    assert "NCCL_COLLNET_ENABLE" not in names(environment(TENSOR, needs=inside)["variables"])
    found = environment(TENSOR, needs=Needs(("CollNet",), True, True))
    assert "export NCCL_COLLNET_ENABLE=1" in found["exports"]
    assert names(found["flags"]) == ["--use-sharp"]
