"""What is said to be proven where the peak made a plan keep less than the devices have."""

from __future__ import annotations

import time
from itertools import product
from typing import Any
from unittest.mock import patch

import pytest

from planner.progress import SilentReporter, never
from planner.sharding import planning
from planner.sharding.instance import Instance, totals
from planner.sharding.options import SolveOptions
from planner.sharding.pareto import front
from planner.sharding.planning import Budget
from tests.referee import check_sharding
from tests.unit.sharding.posted import Body, formulation, solve, two_layers

LIMIT_BYTES = 400_000_000
LOWERED, BETTER = 3_663_157_760, 3_625_409_024
"""The objective of the best plan that keeps little enough, and of one which keeps more and fits."""
OF_THE_BETTER = {"operator": "qkv", "strategy": "d2-r2-c4"}
BODY: Body = {
    "transformer": {"preset": "GPT-3.6B", "batch": 8},
    "devices": 16,
    "alpha": [10, 1],
    "device_memory_bytes": LIMIT_BYTES,
    "explain": [OF_THE_BETTER],
}


class Bounds(SilentReporter):
    """Keeps the bounds that a solve reports."""

    def __init__(self) -> None:
        self.bounds: list[float] = []

    def bound(self, name: str, value: float) -> None:
        self.bounds.append(value)


@pytest.fixture(scope="module")
def solved() -> tuple[dict[str, Any], list[float]]:
    """An answer, and the bounds reported, where plans that keep more were hardly looked at."""
    reporter = Bounds()
    with patch.object(planning, "LONGEST_FITTING_S", 0.0):
        answer = solve(BODY, reporter=reporter, baselines=False)
    return answer, reporter.bounds


def test_a_plan_that_is_best_of_those_that_keep_less_is_not_optimal(
    solved: tuple[dict[str, Any], list[float]],
) -> None:
    answer, bounds = solved
    result = answer["document"]
    plan, certificate = result["plan"], result["certificate"]
    assert result["instance"]["device_memory_bytes"] < LIMIT_BYTES
    assert plan["objective"] == LOWERED
    assert plan["status"] == "feasible"
    assert plan["lower_bound"] == certificate["lower_bound"] == answer["lower_bound"] <= BETTER
    assert bounds == [answer["lower_bound"]]
    assert not certificate["proven_optimal"]
    assert certificate["proof"]["elimination"] == "agrees: no plan is better"
    assert check_sharding(result["instance"], plan) == []


def test_each_weight_of_a_sweep_says_what_is_proven_of_it(
    solved: tuple[dict[str, Any], list[float]],
) -> None:
    lowered, whole = solved[0]["document"]["sweep"]
    assert (lowered["status"], lowered["proven"]) == ("feasible", False)
    assert lowered["lower_bound"] == solved[0]["lower_bound"]
    assert lowered["gap"] == pytest.approx(1 - lowered["lower_bound"] / LOWERED, abs=1e-6)
    assert (whole["status"], whole["proven"], whole["gap"]) == ("optimal", True, 0.0)
    assert whole["lower_bound"] == whole["objective"]


def test_a_weight_without_a_plan_leaves_it_open() -> None:
    body = {"graph": two_layers(), "devices": 4, "alpha": [1, 2]}
    result = solve(body, time_left_s=0.0, baselines=False)["document"]
    row = result["sweep"][1]
    assert (row["status"], row["proven"], row["gap"]) == ("no_plan", None, None)


def test_an_explanation_is_not_proven_by_plans_that_keep_less(
    solved: tuple[dict[str, Any], list[float]],
) -> None:
    (explanation,) = solved[0]["document"]["explanations"]
    assert explanation["possible"]
    assert explanation["proven"] is False


def front_of(instance: Instance) -> set[tuple[int, int]]:
    """Redundancy and bytes sent of the plans that no other beats, by looking at each."""
    plans = set()
    for choice in product(*(range(len(own.strategies)) for own in instance.operators)):
        sums = totals(instance, choice)
        plans.add((sums.redundant_bytes, sums.communication_bytes + sums.resharding_bytes))
    return {
        plan
        for plan in plans
        if not any(o[0] <= plan[0] and o[1] <= plan[1] for o in plans - {plan})
    }


def test_points_of_a_front_are_proven_if_no_plan_that_keeps_more_is_better() -> None:
    own = formulation({"graph": two_layers(batch=16, width=12), "devices": 4})
    free = own.instance(1.0, None)
    everything = front_of(free)
    budget = Budget(time.monotonic() + 60, never, lambda line: None)
    kept, _ = front(own, None, SolveOptions(engine="highs"), budget)
    limit = max(point.memory_bytes for point in kept) - 1
    found, is_complete = front(own, limit, SolveOptions(engine="highs"), budget, is_lowered=True)
    points = [(point.redundant_bytes, point.communication_bytes) for point in found]
    assert [point.is_proven for point in found] == [point in everything for point in points]
    assert set(points) != everything
    assert not is_complete
    whole, is_complete = front(
        own, limit + 1, SolveOptions(engine="highs"), budget, is_lowered=True
    )
    assert is_complete
    assert all(point.is_proven for point in whole)
