"""The exact optimum by elimination, against trying every plan."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from planner.sharding.elimination import TooLarge, find_optimum
from planner.sharding.instance import Edge, Instance
from planner.sharding.verify import find_violations
from tests import referee
from tests.sharding_instances import brute_force, chain, instances


@settings(max_examples=200, deadline=None)
@given(instances(most_operators=7, most_strategies=3))
def test_it_is_the_best_of_all_plans(instance: Instance) -> None:
    best = brute_force(instance)
    plan = find_optimum(instance)
    if best is None:
        assert plan is None
        return
    assert plan is not None
    assert find_violations(instance, plan) == []
    assert plan.objective == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("operators", [6, 12])
def test_the_referee_finds_the_same_optimum_of_a_longer_chain(operators: int) -> None:
    instance = chain(operators, 4)
    plan = find_optimum(instance)
    assert plan is not None
    expected = referee.load(referee.SHARDING_CHECKER).optimum(instance.to_document())
    assert plan.objective == pytest.approx(expected, rel=1e-9)


def test_a_dense_graph_is_given_up() -> None:
    instance = chain(12, 6)
    table = ((1,) * 6,) * 6
    dense = tuple(Edge(u, v, table) for v in range(12) for u in range(v))
    with pytest.raises(TooLarge):
        find_optimum(Instance(instance.operators, dense, 1.0))


def test_too_many_pairs_are_given_up() -> None:
    with pytest.raises(TooLarge):
        find_optimum(chain(40, 8), most_entries=20_000)


def test_it_can_be_told_to_stop() -> None:
    with pytest.raises(TooLarge):
        find_optimum(chain(6, 3), should_stop=lambda: True)
