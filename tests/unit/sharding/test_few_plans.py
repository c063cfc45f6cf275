"""Where there are few plans all of them are compared, and nothing says that an engine ran."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings

from planner.sharding.few_plans import MOST_PLANS, best_of_few
from planner.sharding.instance import Edge, Instance, OperatorChoice, StrategyCost, totals
from planner.sharding.reduce import reduce_instance
from planner.sharding.verify import find_violations
from tests.sharding_instances import brute_force, every_plan, instances
from tests.unit.sharding.posted import Body, document, solve, two_layers

SMALL: Body = {"graph": two_layers(), "devices": 4}
FEW_LEFT: Body = {
    "transformer": {"preset": "BERT-Large", "batch": 8},
    "training": {"flash_attention": False},
    "devices": 4,
}


def alike(counts: list[int]) -> Instance:
    """Operators with so many strategies each, all of which cost the same."""
    strategies = [tuple(StrategyCost(f"s{k}", 1, 0, 5) for k in range(n)) for n in counts]
    return Instance(tuple(OperatorChoice(f"v{v}", own) for v, own in enumerate(strategies)), (), 1)


@settings(max_examples=300, deadline=None)
@given(instances(most_operators=6))
def test_no_plan_is_better_than_the_one_found(instance: Instance) -> None:
    result = best_of_few(instance)
    assert result is not None
    best = brute_force(instance)
    if best is None:
        assert (result.status, result.plan, result.lower_bound) == ("infeasible", None, None)
        return
    plan = result.plan
    assert plan is not None
    assert find_violations(instance, plan) == []
    sums = totals(instance, plan.choice)
    assert plan.objective == plan.lower_bound == result.lower_bound == best
    assert plan.objective == sums.objective(instance.alpha)
    assert plan.memory_bytes == sums.memory_bytes
    assert (result.status, plan.status) == ("optimal", "optimal")
    first = next(choice for choice, own in every_plan(instance) if own == sums)
    assert plan.choice == first


@settings(max_examples=100, deadline=None)
@given(instances(most_operators=6))
def test_the_plan_of_what_reductions_leave_is_the_best_of_all(instance: Instance) -> None:
    reduced = reduce_instance(instance)
    result = best_of_few(reduced.instance)
    assert result is not None
    best = brute_force(instance)
    assert (result.plan is None) == (best is None)
    if result.plan is not None:
        own = totals(instance, reduced.expand(result.plan.choice))
        assert own.objective(instance.alpha) == pytest.approx(best, rel=1e-12)


def test_more_plans_than_are_compared_quickly() -> None:
    just = best_of_few(alike([100, 100]))
    assert just is not None
    assert just.compared == MOST_PLANS == 100 * 100
    assert just.plan is not None
    assert just.plan.choice == (0, 0)
    assert best_of_few(alike([100, 101])) is None


def test_any_number_of_operators_with_one_strategy_is_one_plan() -> None:
    instance = alike([1] * 200)
    edges = (Edge(3, 150, ((7,),)), Edge(150, 3, ((2,),)))
    result = best_of_few(Instance(instance.operators, edges, 0.5, 1000))
    assert result is not None
    assert result.plan is not None
    assert (result.compared, result.plan.objective, result.plan.memory_bytes) == (1, 204.5, 1000)


def test_an_answer_says_that_plans_were_compared_and_no_engine_ran() -> None:
    result = document(FEW_LEFT, baselines=False)
    (model,) = result["provenance"]["model"]
    compared = model["compared_plans"]
    assert 1 < compared <= MOST_PLANS
    assert [model[key] for key in ("columns", "rows", "engine_runs", "engine_seconds")] == [0] * 4
    certificate = result["certificate"]
    assert certificate["proven_optimal"]
    assert certificate["proof"] == {
        "ilp": f"not run: all {compared} plans that the reductions leave were compared",
        "elimination": "agrees: no plan is better",
    }


def test_one_plan_that_is_left_is_said_to_be_one() -> None:
    result = document(SMALL, baselines=False)
    assert result["provenance"]["model"][0]["compared_plans"] == 1
    assert result["certificate"]["proof"]["ilp"] == "not run: the reductions leave one plan"


@pytest.mark.parametrize("engine", ["cbc", "highs"])
def test_without_reductions_the_engine_runs_and_finds_the_same(engine: str) -> None:
    compared = document(FEW_LEFT, baselines=False)
    solver = {"engine": engine, "reductions": False}
    result = document({**FEW_LEFT, "solver": solver}, baselines=False)
    (model,) = result["provenance"]["model"]
    assert model["compared_plans"] == 0
    assert model["engine_runs"] > 0
    assert model["columns"] > 0
    assert result["certificate"]["proof"]["ilp"] == "proven"
    assert result["plan"]["objective"] == compared["plan"]["objective"]


def test_where_the_first_plan_is_the_best_the_engine_is_not_said_to_have_proven_it() -> None:
    body = {**SMALL, "devices": 1, "solver": {"reductions": False}}
    result = document(body, baselines=False)
    assert result["provenance"]["model"][0]["engine_runs"] == 0
    assert result["certificate"]["proof"]["ilp"] == (
        "not run: the plan found first costs no more than the operators' least together"
    )


def test_more_plans_than_are_compared_are_left_to_the_engine() -> None:
    with patch("planner.sharding.few_plans.MOST_PLANS", 26):
        result = document(FEW_LEFT, baselines=False)
    (model,) = result["provenance"]["model"]
    assert model["engine_runs"] == 1
    assert model["compared_plans"] == 0
    assert result["certificate"]["proof"]["ilp"] == "proven"


def test_a_limit_that_nothing_keeps_is_infeasible_whatever_is_compared() -> None:
    answer = solve({**SMALL, "device_memory_bytes": 1})
    assert answer["state"] == "infeasible"
    assert answer["document"]["provenance"]["model"][0]["engine_runs"] == 0
