"""Reductions keep the optimum, and their plans are plans of the original."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings

from planner.sharding.instance import Edge, Instance, OperatorChoice, StrategyCost, totals
from planner.sharding.reduce import Keeps, reduce_instance
from planner.sharding.restrict import least_memory_bytes, most_memory_bytes, restrict, unreduced
from tests.sharding_instances import brute_force, every_plan, instances

SMALL = instances(most_operators=6, most_strategies=3)


def operator(name: str, *costs: tuple[int, int, int]) -> OperatorChoice:
    """Strategies by redundancy, communication and memory."""
    return OperatorChoice(name, tuple(StrategyCost(f"s{k}", *c) for k, c in enumerate(costs)))


@settings(max_examples=150, deadline=None)
@given(SMALL)
def test_the_optimum_stays(instance: Instance) -> None:
    reduced = reduce_instance(instance)
    best = brute_force(instance)
    assert brute_force(reduced.instance) == (None if best is None else pytest.approx(best))


@settings(max_examples=100, deadline=None)
@given(SMALL)
def test_plans_of_the_reduced_instance_are_plans_of_the_original(instance: Instance) -> None:
    reduced = reduce_instance(instance)
    for choice, sums in every_plan(reduced.instance):
        whole = totals(instance, reduced.expand(choice))
        assert whole.redundant_bytes == sums.redundant_bytes
        assert whole.memory_bytes == sums.memory_bytes
        assert (
            whole.communication_bytes + whole.resharding_bytes
            == sums.communication_bytes + sums.resharding_bytes
        )


@settings(max_examples=100, deadline=None)
@given(SMALL)
def test_plans_of_the_original_have_one_that_is_no_worse(instance: Instance) -> None:
    reduced = reduce_instance(instance)
    plans = list(every_plan(instance))
    for choice, sums in random.Random(1).sample(plans, min(40, len(plans))):
        contracted = reduced.contract(choice)
        assert contracted is not None
        better = totals(reduced.instance, contracted)
        objective = sums.objective(instance.alpha)
        assert better.objective(instance.alpha) <= objective * (1 + 1e-12)
        if instance.device_memory_bytes is not None:
            assert better.memory_bytes <= max(sums.memory_bytes, instance.device_memory_bytes)


def front(instance: Instance) -> list[tuple[int, int]]:
    """Redundancy and communication of the plans that no other beats in both."""
    found: list[tuple[int, int]] = []
    for point in sorted(
        (sums.redundant_bytes, sums.communication_bytes + sums.resharding_bytes)
        for _, sums in every_plan(instance)
    ):
        if not found or point[1] < found[-1][1]:
            found.append(point)
    return found


@settings(max_examples=100, deadline=None)
@given(SMALL)
def test_the_front_stays_where_it_is_asked_for(instance: Instance) -> None:
    assert front(reduce_instance(instance, "front").instance) == front(instance)


def test_reductions_for_the_optimum_may_lose_the_front() -> None:
    instance = Instance((operator("linear", (10, 0, 0), (0, 9, 0)),), (), alpha=1.0)
    assert len(reduce_instance(instance).instance.operators[0].strategies) == 1
    assert len(reduce_instance(instance, "front").instance.operators[0].strategies) == 2


def test_an_elementwise_operator_follows_its_producer() -> None:
    """Staying in the producer's layout costs nothing, leaving it more than it could save."""
    linear = operator("linear", (5, 0, 4), (0, 9, 2))
    gelu = operator("gelu", (1, 0, 1), (1, 0, 1))
    next_linear = operator("next", (0, 7, 4), (6, 0, 2))
    passes = ((0, 50), (50, 0))
    edges = (Edge(0, 1, passes), Edge(1, 2, ((0, 8), (8, 0))))
    instance = Instance((linear, gelu, next_linear), edges, 1.0, device_memory_bytes=8)
    reduced = reduce_instance(instance)
    assert [operator.name for operator in reduced.instance.operators] == ["linear", "next"]
    assert reduced.expand((1, 0)) == (1, 1, 0)
    assert reduced.instance.edges == (Edge(0, 1, ((0, 8), (8, 0))),)
    assert reduced.instance.operators[0].strategies[1].memory_bytes == 3


def test_a_merge_may_leave_two_edges_between_two_operators() -> None:
    """A residual edge around the operator that is merged away is added to the one that it had."""
    numbers = random.Random(4)

    def table() -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(numbers.randint(1, 20) for _ in range(2)) for _ in range(2))

    ends = [operator(name, (0, 0, 1), (1, 0, 0)) for name in "ab"]
    norm = operator("norm", (0, 0, 1), (0, 0, 1))
    edges = (Edge(0, 1, ((0, 99), (99, 0))), Edge(1, 2, table()), Edge(0, 2, table()))
    instance = Instance((ends[0], norm, ends[1]), edges, 1.0, device_memory_bytes=2)
    reduced = reduce_instance(instance).instance
    assert len(reduced.edges) <= 1
    assert brute_force(reduced) == brute_force(instance)


def test_a_dominated_strategy_goes_and_of_equal_ones_the_first_stays() -> None:
    linear = operator("linear", (3, 0, 2), (2, 0, 2), (2, 0, 2), (0, 0, 9))
    other = operator("other", (0, 0, 1), (0, 1, 0))
    edge = Edge(0, 1, ((0, 4), (0, 4), (0, 4), (6, 0)))
    instance = Instance((linear, other), (edge,), 1.0, device_memory_bytes=5)
    reduced = reduce_instance(instance)
    assert reduced.members[0][0] == (0, (1,))
    assert reduced.contract((0, 0)) == (0, 0)
    assert reduced.contract((3, 0)) is None


def test_nothing_of_a_chain_is_left_to_decide_without_a_memory_limit() -> None:
    numbers = random.Random(2)
    count = 12
    operators = tuple(
        operator(str(v), *((numbers.randint(0, 99), 0, numbers.randint(0, 99)) for _ in range(5)))
        for v in range(count)
    )
    edges = tuple(
        Edge(v, v + 1, tuple(tuple(numbers.randint(0, 99) for _ in range(5)) for _ in range(5)))
        for v in range(count - 1)
    )
    free = reduce_instance(Instance(operators, edges, 1.0)).instance
    assert {len(operator.strategies) for operator in free.operators} == {1}
    assert free.edges == ()
    least = sum(min(s.memory_bytes for s in operator.strategies) for operator in operators)
    limited = Instance(operators, edges, 1.0, device_memory_bytes=least + 100)
    assert reduce_instance(limited).instance.edges


@settings(max_examples=50, deadline=None)
@given(SMALL)
def test_reducing_again_and_again_changes_nothing(instance: Instance) -> None:
    reduced = reduce_instance(instance)
    assert reduce_instance(instance) == reduced
    assert reduce_instance(reduced.instance).instance == reduced.instance


@pytest.mark.parametrize("keeps", ["optimum", "front"])
def test_an_instance_that_nothing_fits_stays_so(keeps: Keeps) -> None:
    one = operator("one", (0, 0, 9), (1, 0, 8))
    instance = Instance((one,), (), 1.0, device_memory_bytes=7)
    reduced = reduce_instance(instance, keeps).instance
    assert brute_force(reduced) is None
    assert least_memory_bytes(reduced) == 8


@settings(max_examples=50, deadline=None)
@given(SMALL)
def test_restricting_keeps_the_numbers_of_what_is_allowed(instance: Instance) -> None:
    numbers = random.Random(3)
    counts = [len(operator.strategies) for operator in instance.operators]
    allowed = [numbers.sample(range(count), numbers.randint(1, count)) for count in counts]
    fewer = restrict(instance, allowed)
    best = min(
        (
            sums.objective(instance.alpha)
            for choice, sums in every_plan(instance)
            if all(number in own for number, own in zip(choice, allowed, strict=True))
        ),
        default=None,
    )
    assert brute_force(fewer.instance) == best
    for choice, sums in every_plan(fewer.instance):
        assert totals(instance, fewer.expand(choice)) == sums
        assert fewer.contract(fewer.expand(choice)) == choice


def test_an_operator_needs_a_strategy() -> None:
    instance = Instance((operator("linear", (0, 0, 0)),), (), 1.0)
    with pytest.raises(ValueError, match="'linear' is left without a strategy"):
        restrict(instance, [[]])


def test_not_reducing_changes_nothing() -> None:
    instance = Instance((operator("linear", (0, 0, 4), (1, 2, 3)),), (), 1.0, 5)
    same = unreduced(instance)
    assert same.instance == instance
    assert same.expand((1,)) == same.contract((1,)) == (1,)
    assert (least_memory_bytes(instance), most_memory_bytes(instance)) == (3, 4)
    assert replace(same, instance=instance) == same
