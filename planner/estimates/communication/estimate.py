"""Who talks to whom in a training step, over what, and how NCCL is to be set up for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, StrictBool

from planner.cost.degrees import expert_degrees
from planner.cost.hardware import Cluster
from planner.cost.notes import Note
from planner.cost.routes import TIERS, Tier, tier_route
from planner.estimates.communication.algorithms import TREE_EFFICIENCY, has_nvls
from planner.estimates.communication.collectives import Operation
from planner.estimates.communication.group_documents import group_document
from planner.estimates.communication.groups import Kind
from planner.estimates.communication.layout import (
    Layout,
    link_name,
    rank_order_document,
    ranks_document,
    topology_document,
    whole_ns,
)
from planner.estimates.communication.nccl import Needs, nccl_environment
from planner.estimates.communication.rank_orders import order_warnings, rank_order_alternatives
from planner.estimates.request import EstimateRequest, read_costs, read_request

GB = 1e9


class CommunicationRequest(EstimateRequest):
    """The documents, and what they do not say of the network."""

    in_network_reduction: StrictBool = Field(
        default=False, description="The network's switches can add up (InfiniBand SHARP)."
    )


def estimate_communication(body: Mapping[str, Any]) -> dict[str, Any]:
    """Rank order, rank lists, collectives with their times, advice and one environment.

    Raises `SpecError` that names the field at fault, among others where a tensor group would not
    lie inside one node.
    """
    request = read_request(CommunicationRequest, body)
    layout, in_network = Layout.of(read_costs(request)), request.in_network_reduction
    groups = {kind: group_document(layout, kind, in_network=in_network) for kind in layout.groups}
    alternatives = rank_order_alternatives(layout)
    return {
        "summary": _summary(layout),
        "rank_order": rank_order_document(layout),
        "rank_order_alternatives": alternatives,
        "topology": topology_document(layout),
        "ranks": ranks_document(layout),
        "groups": {kind.value: document for kind, document in groups.items()},
        "environment": nccl_environment(layout.costs, _needs(layout, groups, in_network)),
        "assumptions": _assumptions(layout, in_network),
        "warnings": [*_warnings(layout, in_network), *order_warnings(alternatives)],
    }


def _summary(layout: Layout) -> dict[str, Any]:
    by_kind = layout.by_kind_ns()
    by_tier = {
        tier.value: whole_ns(sum(each.step_s for each in layout.sent if each.tier is tier))
        for tier in TIERS
    }
    return {
        "communication_ns": whole_ns(layout.total_s),
        "by_kind_ns": by_kind,
        "by_tier_ns": by_tier,
        "busiest_kind": max(by_kind, key=lambda kind: by_kind[kind], default=None),
        "bounded_by": max(by_tier, key=lambda tier: by_tier[tier]) if layout.sent else None,
        "basis": "One GPU of the pipeline rank that sends most of each kind; all collectives of a "
        "step one after the other, whether computation hides them or not.",
    }


def _needs(layout: Layout, groups: Mapping[Kind, dict[str, Any]], in_network: bool) -> Needs:
    direct = (Operation.SEND_RECEIVE.value, Operation.ALL_TO_ALL.value)
    advised = {
        tier["algorithm"]
        for group in groups.values()
        for tier in group["tiers"]
        if "algorithm" in tier and tier["operation"] not in direct
    }
    crosses = any(layout.crossing(kind) for kind in groups)
    return Needs(tuple(sorted(advised)), crosses, in_network)


def _warnings(layout: Layout, in_network: bool) -> list[str]:
    found = []
    cluster, training = layout.cluster, layout.costs.training
    idle = cluster.gpus - training.degrees.gpus
    if idle:
        found.append(
            f"{idle} of {cluster.gpus} GPUs have no rank: the degrees multiply to "
            f"{training.degrees.gpus}. Raise data_parallel, or take fewer nodes."
        )
    if Kind.TENSOR in layout.groups and cluster.gpu.nvlink_bytes_per_s is None:
        found.append(
            f"Tensor groups talk over PCIe: {layout.kind_s(Kind.TENSOR):.3g} s of a step. Lower "
            "tensor_parallel, or use nodes with NVLink."
        )
    found += [
        _crossing_warning(layout, kind, field)
        for kind, field in ((Kind.CONTEXT, "context_parallel"), (Kind.EXPERT, "expert_parallel"))
        if layout.crossing(kind)
    ]
    if in_network and not any(layout.crossing(kind) for kind in layout.groups):
        found.append("in_network_reduction changes nothing: no group reaches beyond a node.")
    return found


def _crossing_warning(layout: Layout, kind: Kind, field: str) -> str:
    cluster, training = layout.cluster, layout.costs.training
    groups, tensor = layout.groups[kind], training.degrees.tensor
    inside = ", ".join(str(degree) for degree in _inside_node(layout, kind))
    return (
        f"{layout.crossing(kind)} of {groups.count} {kind.value} groups reach beyond a node: "
        f"tensor_parallel x {field} is {tensor * groups.size}, which does not divide the "
        f"{cluster.gpus_per_node} GPUs of a node. Their {layout.kind_s(kind):.3g} s of a step go "
        f"over the network at {tier_route(cluster, Tier.RACK).bytes_per_s / GB:.3g} GB/s per GPU "
        f"instead of {cluster.link_bytes_per_s / GB:.3g}. Inside a node stay {field} {inside}, or "
        "more of it with less tensor_parallel."
    )


def _inside_node(layout: Layout, kind: Kind) -> list[int]:
    """Degrees below the given one that would keep the groups of a kind inside nodes."""
    training, per_node = layout.costs.training, layout.cluster.gpus_per_node
    fitting = list(range(1, layout.groups[kind].size))
    if kind is Kind.EXPERT:
        possible = expert_degrees(layout.costs.model, training.degrees.replicas)
        fitting = [degree for degree in fitting if degree in possible]
    return [degree for degree in fitting if per_node % (training.degrees.tensor * degree) == 0]


def _assumptions(layout: Layout, in_network: bool) -> list[Note]:
    cluster, training = layout.cluster, layout.costs.training
    return [
        {
            "what": "rank order",
            "value": layout.order.name,
            "basis": "Megatron-LM's default (rank generator, megatron/core/parallel_state.py); "
            "launchers number GPUs node by node.",
        },
        *(_link_note(cluster, tier) for tier in TIERS),
        {
            "what": "NVLink SHARP",
            "value": "yes" if has_nvls(cluster) else "no",
            "basis": "Taken to be there from NVLink 4 (450 GB/s each way) and 8 GPUs per node on: "
            "NVSwitches of the third generation, Hopper or later (NCCL user guide).",
        },
        {
            "what": "reduction in the network",
            "value": "yes" if in_network else "no",
            "basis": "As in_network_reduction says; default no.",
        },
        {
            "what": "time of a collective",
            "value": "ring: (n-1) steps of size/n and latency each, twice for an all-reduce, and "
            "one pass through device memory",
            "basis": "nccl-tests; a node's ranks share its network interfaces (NVIDIA/nccl#412).",
        },
        {
            "what": "tree",
            "value": f"{TREE_EFFICIENCY:.0%} of the ring's rate, 2 log2(n) steps",
            "basis": "NCCL's own model, src/graph/tuning.cc.",
        },
        {
            "what": "size of gradient messages",
            "value": "one per step" if training.zero_stage <= 1 else "one per layer",
            "basis": "Frameworks split them into buckets, which pay the latency more often; where "
            "an answer gives ring_from_bytes, compare it with the bucket.",
        },
        {
            "what": "left out",
            "value": "vocabulary-parallel embedding and loss, embedding and head under ZeRO 2 and "
            "3, the gradient norm",
            "basis": "As in the predicted step time; little beside the layers.",
        },
    ]


def _link_note(cluster: Cluster, tier: Tier) -> Note:
    route = tier_route(cluster, tier)
    where = {
        Tier.NODE: "inside a node",
        Tier.RACK: f"inside a rack of {cluster.nodes_per_rack} nodes",
        Tier.ACROSS_RACKS: "across racks",
    }
    return {
        "what": where[tier],
        "value": f"{link_name(cluster, tier)}, {route.bytes_per_s / GB:.1f} GB/s each way per GPU, "
        f"{route.latency_s * 1e6:g} us",
        "basis": "Peak times efficiency; cluster.nodes_per_rack, inter_rack_bytes_per_s, "
        "link_latency_ns and network_latency_ns say otherwise.",
    }
