"""How the ranks of a training lie in its cluster, and what they send: shown rank by rank and node
by node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planner.cost.build import CostModel
from planner.cost.hardware import Cluster
from planner.cost.memory import ceil_div
from planner.cost.routes import TIERS, Tier, tier_route
from planner.estimates.communication.collectives import Collective, collectives_of
from planner.estimates.communication.groups import (
    PIPELINE_LAST,
    Groups,
    Kind,
    RankOrder,
    count_by_tier,
)

LISTED_RANKS = 4096
"""Up to so many ranks everything is listed; beyond, the first of as many ranks as these."""


@dataclass(frozen=True, slots=True)
class Layout:
    """An order of ranks, its groups, how many of them reach how far, and what they send in one
    step."""

    costs: CostModel
    order: RankOrder
    groups: dict[Kind, Groups]
    reach: dict[Kind, dict[Tier, int]]
    sent: list[Collective]

    @classmethod
    def of(cls, costs: CostModel, order: str = PIPELINE_LAST) -> Layout:
        """By default in the order of Megatron-LM and of the cost model."""
        ranks = RankOrder(order, costs.training.degrees)
        groups = ranks.groups(tied_embeddings=costs.model.tied_embeddings)
        reach = {kind: count_by_tier(own, costs.cluster) for kind, own in groups.items()}
        return cls(costs, ranks, groups, reach, collectives_of(costs, ranks))

    @property
    def cluster(self) -> Cluster:
        """Where the ranks lie."""
        return self.costs.cluster

    @property
    def total_s(self) -> float:
        """All collectives of a step, one after the other."""
        return sum(each.step_s for each in self.sent)

    def crossing(self, kind: Kind) -> int:
        """How many groups of a kind reach beyond a node."""
        return sum(count for tier, count in self.reach.get(kind, {}).items() if tier != Tier.NODE)

    def kind_s(self, kind: Kind) -> float:
        """Those of one kind of group."""
        return sum(each.step_s for each in self.sent if each.kind is kind)

    def by_kind_ns(self) -> dict[str, int]:
        """Every kind of group's, in ns."""
        return {kind.value: whole_ns(self.kind_s(kind)) for kind in self.groups}


def whole_ns(seconds: float) -> int:
    """Seconds as nanoseconds."""
    return round(seconds * 1e9)


def link_name(cluster: Cluster, tier: Tier) -> str:
    """What a tier's ranks are connected by."""
    if tier is Tier.NODE:
        return "PCIe" if cluster.gpu.nvlink_bytes_per_s is None else "NVLink"
    return "network" if tier is Tier.RACK else "network between racks"


def rank_order_document(layout: Layout) -> dict[str, Any]:
    """How ranks are numbered."""
    degrees, per_node = layout.costs.training.degrees, layout.cluster.gpus_per_node
    document: dict[str, Any] = {
        "order": layout.order.name,
        "megatron_order": "tp-cp-ep-dp-pp",
        "degrees": {axis.name: axis.size for axis in layout.order.axes()},
        "rank": layout.order.formula(),
        "place": f"node = rank div {per_node}, GPU = rank mod {per_node}",
        "tensor_groups_inside_node": layout.crossing(Kind.TENSOR) == 0,
    }
    if degrees.expert > 1:
        document["degrees"]["expert"] = degrees.expert
        replica = f"(context + {degrees.context} x data)" if degrees.context > 1 else "data"
        document["expert"] = f"expert = {replica} mod {degrees.expert}"
    return document


def ranks_document(layout: Layout) -> dict[str, Any]:
    """Place and coordinates of each rank: one list per column, in the order of ranks."""
    count, per_node = layout.costs.training.degrees.gpus, layout.cluster.gpus_per_node
    ranks = range(min(count, LISTED_RANKS))
    return {
        "count": count,
        "listed": len(ranks),
        "node": [rank // per_node for rank in ranks],
        "gpu": [rank % per_node for rank in ranks],
        **layout.order.columns(ranks),
    }


def topology_document(layout: Layout) -> dict[str, Any]:
    """Nodes, racks, links, and which ranks lie in which node."""
    cluster, gpus = layout.cluster, layout.costs.training.degrees.gpus
    used = ceil_div(gpus, cluster.gpus_per_node)
    listed = min(used, max(1, LISTED_RANKS // cluster.gpus_per_node))
    return {
        "nodes": cluster.nodes,
        "gpus_per_node": cluster.gpus_per_node,
        "racks": ceil_div(cluster.nodes, cluster.nodes_per_rack),
        "nodes_per_rack": cluster.nodes_per_rack,
        "ranks": gpus,
        "nodes_in_use": used,
        "idle_gpus": cluster.gpus - gpus,
        "links": [
            {
                "tier": tier.value,
                "link": link_name(cluster, tier),
                "bytes_per_s": tier_route(cluster, tier).bytes_per_s,
                "latency_ns": whole_ns(tier_route(cluster, tier).latency_s),
            }
            for tier in TIERS
        ],
        "listed": listed,
        "ranks_by_node": [_node_document(layout, node) for node in range(listed)],
    }


def _node_document(layout: Layout, node: int) -> dict[str, Any]:
    cluster = layout.cluster
    first = node * cluster.gpus_per_node
    ranks = range(first, min(first + cluster.gpus_per_node, layout.costs.training.degrees.gpus))
    columns = layout.order.columns(ranks)
    return {
        "node": node,
        "rack": node // cluster.nodes_per_rack,
        "ranks": [ranks[0], ranks[-1]],
        "idle_gpus": cluster.gpus_per_node - len(ranks),
        **{name: sorted(set(column)) for name, column in columns.items()},
    }
