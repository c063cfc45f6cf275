"""Collectives against measurements and against counting links."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.hardware import read_cluster
from planner.cost.routes import Group, all_to_all_s, link_route, network_route, ring_route


@pytest.mark.parametrize(
    ("ranks", "size", "measured_s", "within"),
    [
        (2, 2**30, 5.443e-3, 0.02),
        (4, 2**30, 7.259e-3, 0.02),
        (8, 2**30, 8.193e-3, 0.02),
        (8, 2**20, 1.75 * 2**20 / 20e9, 0.05),
    ],
)
def test_all_reduces_measured_on_a100s(
    ranks: int, size: int, measured_s: float, within: float
) -> None:
    """vTrain's table of a node of A100s; 1 MiB on 8 runs at 20 GB/s of bus bandwidth."""
    route = link_route(read_cluster("8xA100-80GB"))
    assert route.all_reduce_s(size, ranks) == pytest.approx(measured_s, rel=within)


def test_a_collective_of_one_rank_takes_no_time() -> None:
    cluster = read_cluster("8xA100-80GB")
    assert link_route(cluster).all_reduce_s(2**30, 1) == 0
    assert all_to_all_s(cluster, Group(1, 8), 2**30) == 0


@given(
    ranks=st.integers(1, 24),
    stride=st.integers(1, 8),
    size=st.sampled_from([1, 2, 4, 6, 8]),
)
def test_members_per_node_are_the_fewest_of_any_node_that_has_some(
    ranks: int, stride: int, size: int
) -> None:
    """Of all groups of neighbouring pipeline ranks, until they begin as the first one does."""
    fewest = ranks
    for first in range(0, math.lcm(size, ranks * stride), ranks * stride):
        for offset in range(stride):
            nodes = [(first + offset + stride * number) // size for number in range(ranks)]
            fewest = min(fewest, *(nodes.count(node) for node in nodes))
    assert Group(ranks, stride).per(size) <= fewest
    if size % (ranks * stride) == 0:
        assert Group(ranks, stride).per(size) == ranks


def test_a_ring_over_nodes_uses_all_their_network_interfaces() -> None:
    cluster = read_cluster("8x8xA100-80GB")
    network = network_route(cluster).bytes_per_s
    assert ring_route(cluster, Group(8, 1)) == link_route(cluster)
    # All GPUs of each node, two of each, and one of each.
    assert ring_route(cluster, Group(64, 1)).bytes_per_s == pytest.approx(8 * network)
    assert ring_route(cluster, Group(16, 4)).bytes_per_s == pytest.approx(2 * network)
    assert ring_route(cluster, Group(8, 8)).bytes_per_s == pytest.approx(network)
    latency_s = ring_route(cluster, Group(16, 4)).latency_s
    assert latency_s == pytest.approx((6e-6 + 20e-6) / 2)


def test_racks_bound_a_ring_that_leaves_them() -> None:
    fields = {"gpu": "A100-80GB", "nodes": 8, "gpus_per_node": 8, "nodes_per_rack": 4}
    cluster = read_cluster({**fields, "inter_rack_bytes_per_s": 5e9})
    assert ring_route(cluster, Group(4, 8)).bytes_per_s == pytest.approx(20e9)
    assert ring_route(cluster, Group(8, 8)).bytes_per_s == pytest.approx(4e9)


def test_an_all_to_all_is_bound_by_what_leaves_the_node() -> None:
    cluster = read_cluster("2x8xA100-80GB")
    seconds = all_to_all_s(cluster, Group(16, 1), 16 * 10**9)
    assert seconds == pytest.approx(8e9 / 20e9 + 8 * 20e-6)
