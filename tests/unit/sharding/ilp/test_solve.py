"""The ILP finds the optimum of every instance, and proves no more than is true."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings

from planner.milp.engine import EngineName
from planner.sharding.elimination import find_optimum
from planner.sharding.ilp import run
from planner.sharding.ilp.memory import minimise_memory
from planner.sharding.ilp.solve import IlpResult, Objective, solve_instance
from planner.sharding.instance import Edge, Instance, OperatorChoice, StrategyCost, Totals, totals
from planner.sharding.reduce import reduce_instance
from planner.sharding.restrict import least_memory_bytes
from planner.sharding.verify import find_violations
from tests import referee
from tests.sharding_instances import brute_force, chain, every_plan, instances
from tests.unit.sharding.ilp.solving import ENGINES, options


def check(instance: Instance, result: IlpResult, best: float | None) -> None:
    """A result that claims the right optimum, or that there is none."""
    if best is None:
        assert (result.status, result.plan, result.lower_bound) == ("infeasible", None, None)
        return
    assert result.status == "optimal"
    assert result.plan is not None
    assert find_violations(instance, result.plan) == []
    assert result.plan.objective == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert result.lower_bound == result.plan.lower_bound == result.plan.objective
    assert result.ended_by == "proven"


@settings(max_examples=100, deadline=None)
@given(instances())
def test_both_engines_with_and_without_reductions_agree_with_the_referee(
    instance: Instance,
) -> None:
    optimum = referee.load(referee.SHARDING_CHECKER).optimum(instance.to_document())
    reduced = reduce_instance(instance)
    for engine in ENGINES:
        check(instance, solve_instance(instance, **options(engine)), optimum)
        result = solve_instance(reduced.instance, **options(engine))
        check(reduced.instance, result, optimum)
        if result.plan is not None:
            sums = totals(instance, reduced.expand(result.plan.choice))
            assert sums.memory_bytes == result.plan.memory_bytes
            assert sums.objective(instance.alpha) == pytest.approx(result.plan.objective)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=25, deadline=None)
@given(instances(most_operators=6, most_strategies=3))
def test_small_instances_agree_with_trying_every_plan(
    engine: EngineName, instance: Instance
) -> None:
    check(instance, solve_instance(instance, **options(engine)), brute_force(instance))


@pytest.mark.parametrize("engine", ENGINES)
def test_the_referee_accepts_the_plan_of_a_longer_chain(engine: EngineName) -> None:
    instance = chain(14, 5)
    result = solve_instance(instance, **options(engine))
    assert result.plan is not None
    assert referee.check_sharding(instance.to_document(), result.plan.to_document()) == []
    assert referee.check_sharding(
        instance.to_document(), {**result.plan.to_document(), "objective": 1.0}
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(3))
def test_models_that_are_written_for_an_executable_have_the_same_optimum(
    engine: EngineName, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LARGEST_IN_PROCESS", 0)
    instance = chain(10, 4, seed)
    best = find_optimum(instance)
    assert best is not None
    start = best.choice if seed == 0 else None
    result = solve_instance(instance, **options(engine), start=start)
    check(instance, result, best.objective)
    assert result.rounds == 1


def test_a_large_model_goes_to_the_executable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "solve_with_library", None)
    instance = replace(chain(40, 12), device_memory_bytes=None)
    result = solve_instance(instance, **options("highs"))
    assert result.columns >= run.LARGEST_IN_PROCESS
    best = find_optimum(instance)
    assert best is not None
    check(instance, result, best.objective)


def operator(name: str, *costs: tuple[int, int, int]) -> OperatorChoice:
    return OperatorChoice(name, tuple(StrategyCost(f"s{k}", *c) for k, c in enumerate(costs)))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_plan_one_byte_too_large_is_cut_off(engine: EngineName) -> None:
    """A row of the model has six digits, and the memory limit eleven."""
    size = 20_000_000_011
    operators = tuple(
        operator(name, (0, 0, size), (price, 0, size // 3), (3 * price, 0, 1))
        for name, price in (("a", 1000), ("b", 1100), ("c", 1300))
    )
    instance = Instance(operators, (), 1.0, device_memory_bytes=2 * size + size // 3 - 1)
    result = solve_instance(instance, **options(engine))
    check(instance, result, brute_force(instance))
    assert result.rounds > 1
    fitting = replace(instance, device_memory_bytes=2 * size + size // 3)
    result = solve_instance(fitting, **options(engine))
    check(fitting, result, brute_force(fitting))
    assert result.rounds == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_costs_of_very_different_sizes_keep_their_digits(engine: EngineName) -> None:
    """What decides is a few bytes; what nobody would choose costs terabytes."""
    numbers = random.Random(5)
    largest = 10**15
    operators = tuple(
        operator(str(v), *((numbers.randint(0, 9), 0, numbers.randint(0, 9)) for _ in range(3)))
        for v in range(5)
    )
    operators = tuple(
        replace(o, strategies=(*o.strategies, StrategyCost("huge", largest, 0, 0)))
        for o in operators
    )
    edges = tuple(
        Edge(
            v,
            v + 1,
            tuple(
                tuple(largest if 3 in (i, j) else numbers.randint(0, 9) for j in range(4))
                for i in range(4)
            ),
        )
        for v in range(4)
    )
    instance = Instance(operators, edges, 1.0, device_memory_bytes=20)
    check(instance, solve_instance(instance, **options(engine)), brute_force(instance))


def value(sums: Totals, instance: Instance, objective: Objective) -> float:
    sent = sums.communication_bytes + sums.resharding_bytes
    if objective == "communication":
        return sent
    return sums.redundant_bytes + (instance.alpha * sent if objective == "weighted" else 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("objective", ["weighted", "redundancy", "communication"])
@settings(max_examples=20, deadline=None)
@given(instances(most_operators=5, most_strategies=3))
def test_further_limits_and_other_objectives(
    engine: EngineName, objective: Objective, instance: Instance
) -> None:
    plans = [sums for _, sums in every_plan(instance)]
    if not plans:
        return
    middle = random.Random(1).choice(plans)
    sent = middle.communication_bytes + middle.resharding_bytes
    limits = {"communication_limit_bytes": sent, "redundancy_limit_bytes": middle.redundant_bytes}
    del limits[random.Random(len(plans)).choice([*limits])]
    result = solve_instance(instance, **options(engine), objective=objective, **limits)
    within = [
        sums
        for sums in plans
        if sums.communication_bytes + sums.resharding_bytes
        <= limits.get("communication_limit_bytes", sent * 10**6 + 10**15)
        and sums.redundant_bytes <= limits.get("redundancy_limit_bytes", 10**15)
    ]
    best = min(value(sums, instance, objective) for sums in within)
    assert result.status == "optimal"
    assert result.plan is not None
    assert result.plan.objective == pytest.approx(best, rel=1e-9, abs=1e-9)
    found = totals(instance, result.plan.choice)
    assert value(found, instance, objective) == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert found in within


@pytest.mark.parametrize("engine", ENGINES)
def test_a_limit_on_communication_that_nothing_keeps(engine: EngineName) -> None:
    """The least of each operator would do, but not with the resharding between them."""
    ends = tuple(operator(name, (0, 0, 0), (0, 9, 0)) for name in "ab")
    edge = Edge(0, 1, ((6, 0), (0, 9)))
    instance = Instance(ends, (edge,), 1.0)
    result = solve_instance(instance, **options(engine), communication_limit_bytes=5)
    assert (result.status, result.plan, result.ended_by) == ("infeasible", None, "proven")
    result = solve_instance(instance, **options(engine), communication_limit_bytes=6)
    assert result.plan is not None
    assert result.plan.choice == (0, 0)


@settings(max_examples=40, deadline=None)
@given(instances(most_operators=5, most_strategies=3))
def test_the_least_memory_and_the_best_plan_that_needs_no_more(instance: Instance) -> None:
    least = least_memory_bytes(instance)
    result = minimise_memory(instance, **options())
    assert result.plan is not None
    assert result.plan.memory_bytes == least
    lean = replace(instance, device_memory_bytes=least)
    assert find_violations(lean, result.plan) == []
    assert result.status == "optimal"
    assert result.plan.objective == pytest.approx(brute_force(lean))
