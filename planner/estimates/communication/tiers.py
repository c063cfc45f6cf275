"""What connects the ranks of a group: the links of a node, a rack's network, that between racks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from planner.cost.hardware import Cluster
from planner.cost.routes import TIERS, Group, Tier, tier_between, tier_route


def ring_tier(cluster: Cluster, group: Group) -> Tier:
    """The tier with the lowest rate on a group's rings (`ring_route`)."""
    per_node, per_rack = group.per(cluster.gpus_per_node), group.per(cluster.gpus_per_rack)
    if per_node == group.ranks:
        return Tier.NODE
    rates = {Tier.RACK: per_node * tier_route(cluster, Tier.RACK).bytes_per_s}
    if per_rack < group.ranks:
        rates[Tier.ACROSS_RACKS] = per_node * tier_route(cluster, Tier.ACROSS_RACKS).bytes_per_s
    if per_node > 1:
        rates[Tier.NODE] = tier_route(cluster, Tier.NODE).bytes_per_s
    return min(rates, key=lambda tier: (rates[tier], -TIERS.index(tier)))


def all_to_all_tier(cluster: Cluster, group: Group, size: int) -> Tier:
    """The tier on which an all-to-all's part takes longest (`all_to_all_s`)."""
    per_node, per_rack = group.per(cluster.gpus_per_node), group.per(cluster.gpus_per_rack)
    peers = {
        Tier.NODE: per_node - 1,
        Tier.RACK: per_rack - per_node,
        Tier.ACROSS_RACKS: group.ranks - per_rack,
    }

    def seconds(tier: Tier) -> float:
        route = tier_route(cluster, tier)
        part = size * peers[tier] / group.ranks / route.bytes_per_s
        return peers[tier] * route.latency_s + part

    return max(TIERS, key=seconds)


def sub_groups(ranks: Sequence[int], cluster: Cluster) -> dict[Tier, list[list[int]]]:
    """A group (ascending) taken apart as a hierarchical collective works: its ranks of each node;
    of each rack the first rank of each node; the first rank of each rack. Parts of one rank, which
    have nothing to exchange, are left out."""
    nodes = _parts(ranks, cluster.gpus_per_node)
    racks = _parts([part[0] for part in nodes], cluster.gpus_per_rack)
    found = {Tier.NODE: nodes, Tier.RACK: racks, Tier.ACROSS_RACKS: [[part[0] for part in racks]]}
    return {tier: [part for part in parts if len(part) > 1] for tier, parts in found.items()}


def _parts(ranks: Sequence[int], block: int) -> list[list[int]]:
    """Ranks by the block of neighbouring GPUs that they lie in."""
    parts: dict[int, list[int]] = {}
    for rank in ranks:
        parts.setdefault(rank // block, []).append(rank)
    return list(parts.values())


def neighbours(
    ranks: Sequence[int], cluster: Cluster, *, ring: bool
) -> dict[Tier, list[list[int]]]:
    """A chain of ranks, or a ring of more than two, taken apart into pairs that send to each other
    directly."""
    pairs = [[left, right] for left, right in pairwise(ranks)]
    if ring and len(ranks) > 2:
        pairs.append([ranks[-1], ranks[0]])
    return {
        tier: [pair for pair in pairs if tier_between(cluster, *pair) is tier] for tier in TIERS
    }
