"""Groups against lists made rank by rank, and how they lie over nodes and racks."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.degrees import Degrees
from planner.cost.hardware import Cluster, read_cluster
from planner.cost.routes import TIERS, Tier, tier_between
from planner.estimates.communication.groups import (
    DATA_LAST,
    PIPELINE_LAST,
    Groups,
    Kind,
    RankOrder,
    count_by_tier,
    widest_group,
)
from planner.estimates.communication.tiers import sub_groups

Lists = list[list[int]]


def lists(groups: Groups) -> Lists:
    return [groups.ranks_from(first) for first in groups.first_ranks()]


def rank_by_rank(sizes: dict[str, int], members: tuple[str, ...]) -> Lists:
    """Number the ranks in nested loops, the first axis innermost, and put those together that
    differ in `members` only."""
    names = list(sizes)
    places = product(*(range(sizes[name]) for name in reversed(names)))
    found: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for rank, backwards in enumerate(places):
        place = dict(zip(reversed(names), backwards, strict=True))
        found[tuple(place[name] for name in names if name not in members)].append(rank)
    return sorted(found.values())


@st.composite
def all_degrees(draw: st.DrawFn) -> Degrees:
    pipeline, tensor, data = (draw(st.integers(1, high)) for high in (4, 4, 6))
    context = draw(st.integers(1, 3))
    replicas = data * context
    expert = draw(st.sampled_from([d for d in range(1, replicas + 1) if replicas % d == 0]))
    return Degrees(pipeline, tensor, data, context, expert)


def cluster_of(per_node: int, per_rack: int, nodes: int = 64) -> Cluster:
    fields = {"gpu": "A100-80GB", "nodes": nodes, "gpus_per_node": per_node}
    return read_cluster({**fields, "nodes_per_rack": per_rack})


@given(all_degrees())
def test_every_group_is_what_numbering_the_ranks_gives(degrees: Degrees) -> None:
    sizes = {
        "tensor": degrees.tensor,
        "context": degrees.context,
        "data": degrees.data,
        "pipeline": degrees.pipeline,
    }
    expert_sizes = {
        "tensor": degrees.tensor,
        "expert": degrees.expert,
        "expert_data": degrees.expert_replicas,
        "pipeline": degrees.pipeline,
    }
    expected = {
        Kind.TENSOR: rank_by_rank(sizes, ("tensor",)),
        Kind.CONTEXT: rank_by_rank(sizes, ("context",)),
        Kind.DATA: rank_by_rank(sizes, ("data",)),
        Kind.DATA_CONTEXT: rank_by_rank(sizes, ("context", "data")),
        Kind.PIPELINE: rank_by_rank(sizes, ("pipeline",)),
        Kind.EXPERT: rank_by_rank(expert_sizes, ("expert",)),
        Kind.EXPERT_DATA: rank_by_rank(expert_sizes, ("expert_data",)),
    }
    expected[Kind.EMBEDDING] = [[ranks[0], ranks[-1]] for ranks in expected[Kind.PIPELINE]]
    found = RankOrder(PIPELINE_LAST, degrees).groups(tied_embeddings=True)
    for kind, groups in found.items():
        assert lists(groups) == expected[kind]
        assert (groups.size, groups.count) == (len(expected[kind][0]), len(expected[kind]))
    alone = {kind for kind in Kind if kind not in found}
    assert all(
        len(expected[kind][0]) == 1
        or (kind is Kind.EMBEDDING and degrees.pipeline == 1)
        or (kind is Kind.DATA_CONTEXT and 1 in (degrees.data, degrees.context))
        or (kind is Kind.EXPERT_DATA and degrees.expert == 1)
        for kind in alone
    )


@given(all_degrees())
def test_pipeline_ranks_before_data_ranks(degrees: Degrees) -> None:
    sizes = {
        "tensor": degrees.tensor,
        "context": degrees.context,
        "pipeline": degrees.pipeline,
        "data": degrees.data,
    }
    dense = Degrees(degrees.pipeline, degrees.tensor, degrees.data, degrees.context)
    found = RankOrder(DATA_LAST, dense).groups(tied_embeddings=False)
    members = {Kind.DATA_CONTEXT: ("context", "data")}
    for kind, groups in found.items():
        assert lists(groups) == rank_by_rank(sizes, members.get(kind, (kind.value,)))


def test_the_examples_of_megatron_lm() -> None:
    """megatron/core/parallel_state.py: 16 GPUs in tensor groups of 2 and pipelines of 4; 8 GPUs in
    tensor groups of 4 and context groups of 2; 2 x 2 x 2 with pipeline ranks before data ranks."""
    found = RankOrder(PIPELINE_LAST, Degrees(4, 2, 2)).groups(tied_embeddings=True)
    assert lists(found[Kind.DATA])[:4] == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert lists(found[Kind.TENSOR])[-1] == [14, 15]
    assert lists(found[Kind.PIPELINE]) == [
        [first, first + 4, first + 8, first + 12] for first in range(4)
    ]
    assert lists(found[Kind.EMBEDDING]) == [[0, 12], [1, 13], [2, 14], [3, 15]]
    context = RankOrder(PIPELINE_LAST, Degrees(1, 4, 1, 2)).groups(tied_embeddings=True)
    assert lists(context[Kind.CONTEXT]) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    other = RankOrder(DATA_LAST, Degrees(2, 2, 2)).groups(tied_embeddings=True)
    assert lists(other[Kind.DATA]) == [[0, 4], [1, 5], [2, 6], [3, 7]]


@given(all_degrees())
def test_coordinates_lead_back_to_the_rank(degrees: Degrees) -> None:
    order = RankOrder(PIPELINE_LAST, degrees)
    ranks = range(degrees.gpus)
    columns = order.columns(ranks)
    for axis in order.axes():
        assert all(0 <= coordinate < axis.size for coordinate in columns[axis.name])
    for rank in ranks:
        assert rank == sum(columns[axis.name][rank] * axis.stride for axis in order.axes())
        replica = columns["context"][rank] + degrees.context * columns["data"][rank]
        assert columns["expert"][rank] == replica % degrees.expert


@given(all_degrees(), st.integers(1, 9), st.integers(1, 5))
def test_how_far_groups_reach(degrees: Degrees, per_node: int, per_rack: int) -> None:
    cluster = cluster_of(per_node, per_rack)
    for groups in RankOrder(PIPELINE_LAST, degrees).groups(tied_embeddings=True).values():
        reach = [
            max((tier_between(cluster, a, b) for a in ranks for b in ranks), key=TIERS.index)
            for ranks in lists(groups)
        ]
        counts = count_by_tier(groups, cluster)
        assert counts == {tier: reach.count(tier) for tier in TIERS}
        group, widest = widest_group(groups, cluster)
        assert widest is max(reach, key=TIERS.index)
        assert lists(groups)[reach.index(widest)] == group


@given(st.sets(st.integers(0, 200), min_size=1, max_size=40), st.integers(1, 9), st.integers(1, 4))
def test_the_parts_of_a_group_carry_one_ranks_news_to_all(
    ranks: set[int], per_node: int, per_rack: int
) -> None:
    cluster = cluster_of(per_node, per_rack)
    parts = sub_groups(sorted(ranks), cluster)
    for tier in (Tier.NODE, Tier.RACK):
        for part in parts[tier]:
            reach = {tier_between(cluster, part[0], rank) for rank in part}
            assert reach <= set(TIERS[: TIERS.index(tier) + 1])
    for tier in TIERS:
        members = [rank for part in parts[tier] for rank in part]
        assert len(members) == len(set(members))
        assert all(len(part) > 1 for part in parts[tier])
    informed = {min(ranks)}
    for tier in reversed(TIERS):
        for part in parts[tier]:
            if informed & set(part):
                informed |= set(part)
    assert informed == ranks


def test_leaders_of_nodes_and_racks() -> None:
    """Two ranks of each of four nodes in two racks."""
    cluster = cluster_of(8, 2, nodes=4)
    parts = sub_groups([0, 4, 8, 12, 16, 20, 24, 28], cluster)
    assert parts[Tier.NODE] == [[0, 4], [8, 12], [16, 20], [24, 28]]
    assert parts[Tier.RACK] == [[0, 8], [16, 24]]
    assert parts[Tier.ACROSS_RACKS] == [[0, 16]]


@pytest.mark.parametrize("order", [PIPELINE_LAST, DATA_LAST])
def test_members_in_a_node(order: str) -> None:
    """Context 2 and data 2 with tensor 2: all in a node, or each context pair with another data
    rank 8 ranks away."""
    found = RankOrder(order, Degrees(2, 2, 2, 2)).groups(tied_embeddings=False)
    group = found[Kind.DATA_CONTEXT].route_group()
    assert group.ranks == 4
    assert group.per(8) == {PIPELINE_LAST: 4, DATA_LAST: 2}[order]
    assert group.per(2) == 1
    assert found[Kind.PIPELINE].route_group().per(8) == {PIPELINE_LAST: 1, DATA_LAST: 2}[order]
