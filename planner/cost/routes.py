"""Paths between GPUs and what collectives take on them.

Sources: NVIDIA's nccl-tests for the bytes that a ring moves, NCCL's own cost model for its latency
per step. Durations are seconds as floating-point numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from planner.cost.hardware import Cluster


@dataclass(frozen=True, slots=True)
class Route:
    """A path between GPUs: bytes per second in one direction, and latency of one step.

    `memory_bytes_per_s` is the rate at which a GPU passes what it sends or receives through its
    own memory.
    """

    bytes_per_s: float
    latency_s: float
    memory_bytes_per_s: float

    def transfer_s(self, size: int) -> float:
        """Latency plus size over bandwidth."""
        return self.latency_s + size / self.bytes_per_s

    def all_reduce_s(self, size: int, ranks: int) -> float:
        """Ring all-reduce of `size` bytes per rank: a reduce-scatter and an all-gather."""
        return 2 * self.gather_s(size, ranks)

    def gather_s(self, size: int, ranks: int) -> float:
        """Ring all-gather or reduce-scatter of `size` bytes in all.

        n - 1 steps of size / n bytes each (nccl-tests), and one pass of all of it through memory.
        """
        if ranks == 1:
            return 0.0
        on_link = self.latency_s + size / ranks / self.bytes_per_s
        return (ranks - 1) * on_link + size / self.memory_bytes_per_s


@dataclass(frozen=True, slots=True)
class Group:
    """`ranks` GPUs, each `stride` after the one before."""

    ranks: int
    stride: int

    def per(self, size: int) -> int:
        """How many of them lie in a block of `size` neighbouring GPUs, at the least of any block
        that holds some, wherever among groups alike this one lies."""
        return max(1, math.gcd(size, self.ranks * self.stride) // self.stride)


def link_route(cluster: Cluster) -> Route:
    """Between GPUs of one node."""
    return Route(cluster.link_bytes_per_s, cluster.link_latency_ns / 1e9, cluster.hbm_bytes_per_s)


def network_route(cluster: Cluster) -> Route:
    """Between GPUs of different nodes."""
    return Route(
        cluster.network_bytes_per_s, cluster.network_latency_ns / 1e9, cluster.hbm_bytes_per_s
    )


def rack_route(cluster: Cluster) -> Route:
    """Between GPUs of different racks."""
    return Route(
        cluster.rack_bytes_per_s, cluster.network_latency_ns / 1e9, cluster.hbm_bytes_per_s
    )


def host_route(cluster: Cluster, sharers: int) -> Route:
    """Between a GPU and host memory while `sharers` GPUs use the same path at once."""
    return Route(
        cluster.host_bytes_per_s / sharers, cluster.link_latency_ns / 1e9, cluster.hbm_bytes_per_s
    )


class Tier(StrEnum):
    """What connects two GPUs, from the fastest on."""

    NODE = "node"
    RACK = "rack"
    ACROSS_RACKS = "across_racks"


TIERS = tuple(Tier)


def tier_between(cluster: Cluster, gpu: int, other: int) -> Tier:
    """The way from one GPU to another, by their numbers in the cluster."""
    if gpu // cluster.gpus_per_node == other // cluster.gpus_per_node:
        return Tier.NODE
    if gpu // cluster.gpus_per_rack == other // cluster.gpus_per_rack:
        return Tier.RACK
    return Tier.ACROSS_RACKS


def tier_route(cluster: Cluster, tier: Tier) -> Route:
    """What one GPU reaches on a tier."""
    routes = {Tier.NODE: link_route, Tier.RACK: network_route, Tier.ACROSS_RACKS: rack_route}
    return routes[tier](cluster)


def neighbour_tier(cluster: Cluster, group: Group) -> Tier:
    """The slowest way from a member of a group to the next, where each pair is on its own."""
    if group.per(cluster.gpus_per_node) == group.ranks:
        return Tier.NODE
    in_rack = group.per(cluster.gpus_per_rack) == group.ranks
    return Tier.RACK if in_rack else Tier.ACROSS_RACKS


def ring_route(cluster: Cluster, group: Group) -> Route:
    """The rings of a group's collectives, at the rate of their slowest part.

    The members of a node run as many rings as there are of them, each through the network
    interface of another member, so that a node's members share what crosses between nodes (NCCL's
    channels). The latency is that of the average step.
    """
    per_node, per_rack = group.per(cluster.gpus_per_node), group.per(cluster.gpus_per_rack)
    link = link_route(cluster)
    if per_node == group.ranks:
        return link
    network = network_route(cluster)
    rate = per_node * network.bytes_per_s
    if per_rack < group.ranks:
        rate = min(rate, per_node * cluster.rack_bytes_per_s)
    if per_node > 1:
        rate = min(rate, link.bytes_per_s)
    latency_s = ((per_node - 1) * link.latency_s + network.latency_s) / per_node
    return Route(rate, latency_s, link.memory_bytes_per_s)


def all_to_all_s(cluster: Cluster, group: Group, size: int) -> float:
    """Each rank sends `size` / n bytes to each of the n ranks, of which one is itself.

    What stays in the node and what leaves it go at the same time (nccl-tests for the volume).
    """
    per_node, per_rack = group.per(cluster.gpus_per_node), group.per(cluster.gpus_per_rack)
    steps = [(link_route(cluster), per_node - 1)]
    steps.append((network_route(cluster), per_rack - per_node))
    steps.append((rack_route(cluster), group.ranks - per_rack))
    return max(
        peers * route.latency_s + size * peers / group.ranks / route.bytes_per_s
        for route, peers in steps
    )
