"""Which ranks share switches and what lies between them, against looking at every GPU."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from planner.cost.degrees import Degrees
from planner.cost.hardware import read_cluster
from planner.cost.links import find_host_links, rank_tier
from planner.cost.routes import TIERS, tier_between


@given(
    st.integers(1, 5),
    st.integers(1, 12),
    st.integers(1, 8),
    st.integers(1, 3),
    st.integers(1, 40),
    st.integers(1, 3),
)
def test_only_the_gpus_at_the_ends_of_a_rank_need_to_be_looked_at(
    nodes_per_rack: int, per_node: int, pipeline: int, tensor: int, data: int, per_switch: int
) -> None:
    cluster = replace(
        read_cluster({"gpu": "H100", "nodes": 400, "gpus_per_node": per_node}),
        nodes_per_rack=nodes_per_rack,
        switch_of=tuple(gpu // per_switch for gpu in range(per_node)),
    )
    degrees = Degrees(pipeline, tensor, data)
    switches = [
        Counter(
            (gpu // per_node, cluster.switch_of[gpu % per_node])
            for gpu in degrees.gpus_of_rank(rank)
        )
        for rank in range(pipeline)
    ]
    links = find_host_links(cluster, degrees)
    assert links.sharers == max(max(own.values()) for own in switches)
    for rank in range(pipeline - 1):
        together = links.link_of_rank[rank] is not None and (
            links.link_of_rank[rank] == links.link_of_rank[rank + 1]
        )
        assert together == bool(switches[rank].keys() & switches[rank + 1].keys())
    for rank in range(pipeline):
        for other in range(pipeline):
            pairs = zip(degrees.gpus_of_rank(rank), degrees.gpus_of_rank(other), strict=True)
            tiers = [tier_between(cluster, *pair) for pair in pairs]
            assert rank_tier(cluster, degrees, rank, other) is max(tiers, key=TIERS.index)
