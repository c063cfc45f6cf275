"""Plans whose predicted peak has to fit, where more than one operator has to change for that."""

from __future__ import annotations

import itertools
import random
import time
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.progress import SilentReporter, never
from planner.sharding import fitting, planning
from planner.sharding.build import Formulation
from planner.sharding.fitting import Fitting
from planner.sharding.instance import totals
from planner.sharding.peak import predicted_peak_bytes
from planner.sharding.request import resolve_request
from planner.sharding.solve import run
from planner.sizes import gib
from tests.unit.sharding.posted import Body, StopAfter, document, formulation, graphs

LEAST_PEAK_BYTES = 337_920
"""Of all plans of the graph, by looking at each."""


def tensor(name: str, features: int) -> dict[str, Any]:
    return {"name": name, "shape": [32, features], "dtype": "bf16"}


def linear(name: str, source: str, target: str, features: tuple[int, int]) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "linear",
        "inputs": [source],
        "outputs": [tensor(target, features[1])],
        "parameters": [{"name": "weight", "shape": list(features)}],
    }


GRAPH = {
    "inputs": [tensor("x", 64)],
    "operators": [
        linear("up", "x", "h", (64, 512)),
        {"name": "drop", "kind": "dropout", "inputs": ["h"], "outputs": [tensor("e", 512)]},
        linear("down", "e", "y", (512, 64)),
        {"name": "sum", "kind": "add", "inputs": ["x", "y"], "outputs": [tensor("z", 64)]},
    ],
}


def solved(limit_bytes: int) -> dict[str, Any]:
    body = {"graph": GRAPH, "devices": 4, "device_memory_bytes": limit_bytes}
    return run(resolve_request(body).spec, SilentReporter(), never, None, 60.0)


@pytest.mark.parametrize(
    ("limit_bytes", "objective"), [(LEAST_PEAK_BYTES, 106_496), (338_944, 83_968)]
)
def test_the_best_plan_that_fits_is_found_among_few(limit_bytes: int, objective: int) -> None:
    answer = solved(limit_bytes)
    assert answer["state"] == "succeeded"
    assert answer["objective"] == objective
    assert answer["document"]["plan"]["predicted_peak_bytes"] <= limit_bytes


def test_where_none_fits_it_says_what_would() -> None:
    answer = solved(LEAST_PEAK_BYTES - 1)
    assert answer["state"] == "failed"
    assert answer["code"] == "no_plan_within_limit"
    assert f"the least found is {gib(LEAST_PEAK_BYTES)}" in answer["detail"]
    assert "What would do: 8 devices; " in answer["detail"]


@st.composite
def small_formulations(draw: st.DrawFn) -> tuple[Formulation, float]:
    """Of few enough plans to look at each, and a weight of communication."""
    body: Body = {
        "graph": draw(graphs(3)),
        "devices": draw(st.sampled_from([2, 3, 4])),
        "training": {"zero_stage": draw(st.sampled_from([0, 3]))},
    }
    return formulation(body), draw(st.sampled_from([0.0, 0.5, 1.0, 10.0]))


@settings(max_examples=60, deadline=None)
@given(small_formulations(), st.floats(0, 1), st.sampled_from([1, 3, 2_000]), st.booleans())
def test_what_is_found_and_proven_is_what_looking_at_every_plan_says(
    made: tuple[Formulation, float], share: float, most_in_order: int, all_are_few: bool
) -> None:
    """Whether plans are looked at in order until one fits, or local search has to go on."""
    own, alpha = made
    instance = own.instance(alpha, None)
    costs, needed = {}, {}
    for choice in itertools.product(*(range(len(o.strategies)) for o in instance.operators)):
        sums = totals(instance, choice)
        costs[choice] = sums.objective(alpha)
        needed[choice] = max(sums.memory_bytes, predicted_peak_bytes(own, choice))
    least = min(needed.values())
    limit = int(least + share * (needed[min(costs, key=costs.__getitem__)] - least))
    best = min(cost for choice, cost in costs.items() if needed[choice] <= limit)
    start = random.Random(0).choice(list(costs))
    with (
        patch.object(fitting, "MOST_IN_ORDER", most_in_order),
        patch.object(fitting, "FEW_PLANS", 10**9 if all_are_few else 0),
    ):
        search = Fitting(own, instance, limit, time.monotonic() + 60, never)
        found = search.run([start])
    if found is not None:
        assert needed[found] <= limit
        assert costs[found] >= best
    assert search.bound is not None
    assert search.bound <= best * (1 + 1e-9)
    if search.compared:
        assert found is not None
        assert costs[found] == pytest.approx(best, rel=1e-9)
    if all_are_few or most_in_order >= len(costs):
        assert search.compared


def test_without_a_plan_that_fits_all_few_are_looked_at_for_the_least() -> None:
    own = formulation({"graph": GRAPH, "devices": 4})
    search = Fitting(own, own.instance(1.0, 1), 1, time.monotonic() + 60, never)
    assert search.run([]) is None
    assert search.least_needed_bytes == LEAST_PEAK_BYTES


@pytest.mark.parametrize(
    ("devices", "limit_bytes", "objective"),
    [
        (2, 256_046_079, 84_054_016),
        (4, 142_721_535, 154_479_616),
        (8, 84_252_159, 148_165_120),
    ],
)
def test_the_best_of_very_many_plans_is_found_and_proven(
    devices: int, limit_bytes: int, objective: int
) -> None:
    """The limit is a byte below the peak of the plan that costs least."""
    layer: Body = {
        "transformer": {"preset": "BERT-Large", "batch": 8, "sequence": 512},
        "training": {"flash_attention": False},
        "devices": devices,
        "device_memory_bytes": limit_bytes,
    }
    result = document(layer, baselines=False)
    plan, certificate = result["plan"], result["certificate"]
    assert plan["objective"] == objective
    assert plan["predicted_peak_bytes"] <= limit_bytes
    assert certificate["proven_optimal"]
    assert certificate["lower_bound"] == plan["lower_bound"] == objective
    # The instance knows no peaks, and has cheaper plans.
    assert plan["status"] == "feasible"
    assert "none whose peak fits is better" in certificate["proof"]["elimination"]


def test_local_search_is_bounded_by_the_plans_looked_at_in_order() -> None:
    layer: Body = {
        "transformer": {"preset": "BERT-Large", "batch": 8, "sequence": 512},
        "training": {"flash_attention": False},
        "devices": 8,
        "device_memory_bytes": 84_252_159,
    }
    with patch.object(fitting, "MOST_IN_ORDER", 50):
        result = document(layer, baselines=False)
    certificate = result["certificate"]
    assert not certificate["proven_optimal"]
    # The cheapest plan of all costs 145,652,224; the best that fits is the 90th.
    assert 145_652_224 < certificate["lower_bound"] <= 148_165_120
    assert result["plan"]["objective"] <= 1.05 * 148_165_120


def test_a_stop_ends_the_search_with_what_there_is() -> None:
    own = formulation({"graph": GRAPH, "devices": 4})
    instance = own.instance(1.0, None)
    start = tuple(0 for _ in instance.operators)
    limit = predicted_peak_bytes(own, start)
    search = Fitting(own, instance, limit, time.monotonic() + 60, lambda: True)
    assert search.run([start]) == start
    assert not search.compared


EXPERTS: Body = {
    "transformer": {"preset": "Mixtral-8x7B", "batch": 16, "layers": 2},
    "devices": 8,
    "device_memory_bytes": 42_011_484_815,
}


def test_where_the_first_seconds_bring_nothing_the_search_goes_on() -> None:
    with patch.object(planning, "LONGEST_FITTING_S", 0.0):
        result = document(EXPERTS, baselines=False)
    assert result["plan"]["objective"] == 216_101_437_440
    assert result["plan"]["predicted_peak_bytes"] == 41_989_603_328
    assert result["certificate"]["fits"]


def test_where_there_are_few_the_search_goes_on_with_all() -> None:
    with patch.object(planning, "LONGEST_FITTING_S", 0.0):
        answer = solved(LEAST_PEAK_BYTES)
        none = solved(LEAST_PEAK_BYTES - 1)
    assert answer["objective"] == 106_496
    assert f"the least found is {gib(LEAST_PEAK_BYTES)}" in none["detail"]


@pytest.mark.parametrize("limit_bytes", [LEAST_PEAK_BYTES - 1, 338_944])
def test_the_search_does_not_go_on_where_one_was_found_or_none_is_left(limit_bytes: int) -> None:
    with patch.object(Fitting, "run_longer", side_effect=AssertionError):
        solved(limit_bytes)


def test_a_longer_search_ends_when_told_to_stop() -> None:
    own, limit = formulation(EXPERTS), EXPERTS["device_memory_bytes"]
    instance = own.instance(1.0, limit)
    start = tuple(0 for _ in instance.operators)
    search = Fitting(own, instance, limit, time.monotonic(), stop := StopAfter(20))
    assert search.run([start]) is None
    assert search.run_longer([start], time.monotonic() + 60) is None
    assert stop.looks < 30
