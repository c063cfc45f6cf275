"""The front of redundancy against communication, against trying every plan."""

from __future__ import annotations

import time
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.progress import never
from planner.sharding.elimination import TooLarge, find_front
from planner.sharding.instance import Instance, totals
from planner.sharding.options import SolveOptions
from planner.sharding.pareto import FrontPoint, front, without_dominated
from planner.sharding.planning import Budget
from tests.sharding_instances import every_plan, instances
from tests.unit.sharding.posted import (
    Body,
    bodies,
    document,
    extremes,
    formulation,
    instance_of,
    two_layers,
)

Point = tuple[int, int]


def true_front(instance: Instance) -> list[Point]:
    """Redundancy and bytes sent of all plans that no other beats or equals in both."""
    best: dict[int, int] = {}
    for _, sums in every_plan(instance):
        sent = sums.communication_bytes + sums.resharding_bytes
        best[sums.redundant_bytes] = min(sent, best.get(sums.redundant_bytes, sent))
    kept: list[Point] = []
    for redundant, sent in sorted(best.items()):
        if not kept or sent < kept[-1][1]:
            kept.append((redundant, sent))
    return kept


def points_of(found: tuple[FrontPoint, ...]) -> list[Point]:
    return [(point.redundant_bytes, point.communication_bytes) for point in found]


@settings(max_examples=150, deadline=None)
@given(instances(most_operators=6, most_strategies=3, limited=False))
def test_elimination_finds_the_whole_front(instance: Instance) -> None:
    choices = find_front(instance)
    sums = [totals(instance, choice) for choice in choices]
    found = [(s.redundant_bytes, s.communication_bytes + s.resharding_bytes) for s in sums]
    assert found == true_front(instance)


def test_elimination_can_be_told_to_stop() -> None:
    with pytest.raises(TooLarge):
        find_front(
            formulation({"graph": two_layers(), "devices": 4}).instance(1, None), most_entries=9
        )


SETTINGS = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))


def run_front(body: Body, limit_bytes: int | None) -> tuple[tuple[FrontPoint, ...], bool]:
    budget = Budget(time.monotonic() + 60, never, lambda line: None)
    return front(formulation(body), limit_bytes, SolveOptions(engine="highs"), budget)


@SETTINGS
@given(bodies(most_operators=3), st.sampled_from([None, 0.0, 0.3, 0.7]))
def test_the_whole_front_with_and_without_a_limit(body: Body, share: float | None) -> None:
    least, most = extremes(body)
    limit = None if share is None else int(least + share * (most - least))
    found, is_complete = run_front(body, limit)
    assert is_complete
    assert all(point.is_proven for point in found)
    assert points_of(found) == true_front(formulation(body).instance(1, limit))
    for point in found:
        sums = totals(formulation(body).instance(1, limit), point.choice)
        assert sums.memory_bytes == point.memory_bytes
        assert limit is None or point.memory_bytes <= limit
        assert (point.peak_bytes is None) == (limit is None)


@SETTINGS
@given(bodies(most_operators=3), st.sampled_from([None, 0.3]))
def test_without_elimination_the_ilp_finds_the_same(body: Body, share: float | None) -> None:
    least, most = extremes(body)
    limit = None if share is None else int(least + share * (most - least))
    with patch("planner.sharding.pareto.find_front", side_effect=TooLarge("no")):
        found, is_complete = run_front(body, limit)
    assert is_complete
    assert points_of(found) == true_front(formulation(body).instance(1, limit))


def test_a_front_cut_short_says_so() -> None:
    over = Budget(time.monotonic() - 1, never, lambda line: None)
    body = {"graph": two_layers(), "devices": 4}
    with patch("planner.sharding.pareto.find_front", side_effect=TooLarge("no")):
        found, is_complete = front(formulation(body), None, SolveOptions(), over)
    assert found == ()
    assert not is_complete


def test_the_front_of_an_answer() -> None:
    body = {"graph": two_layers(batch=16, width=12), "devices": 4, "pareto": True, "alpha": 0.3}
    result = document(body, baselines=False)
    instance = instance_of(result)
    rows = result["pareto"]
    assert [(r["redundant_bytes"], r["communication_bytes"]) for r in rows] == true_front(instance)
    assert result["pareto_complete"]
    assert all(row["proven"] and row["fits"] for row in rows)
    objective = min(r["redundant_bytes"] + 0.3 * r["communication_bytes"] for r in rows)
    assert result["plan"]["objective"] == pytest.approx(objective)


def test_points_of_a_front_say_whether_their_peak_fits() -> None:
    body: Body = {"graph": two_layers(), "devices": 4, "pareto": True}
    peak = document(body, baselines=False)["plan"]["predicted_peak_bytes"]
    result = document({**body, "device_memory_bytes": peak}, baselines=False)
    assert {row["fits"] for row in result["pareto"]} == {
        row["predicted_peak_bytes"] <= peak for row in result["pareto"]
    }


def test_the_front_of_pins_is_that_of_the_plans_left() -> None:
    body = {"graph": two_layers(), "devices": 4, "pareto": True, "pin": {"up": "d2-r2-c1"}}
    result = document(body, baselines=False)
    rows = [(row["redundant_bytes"], row["communication_bytes"]) for row in result["pareto"]]
    assert rows == true_front(instance_of(result))


def test_the_front_of_a_transformer_is_there_in_seconds() -> None:
    body = {
        "transformer": {"preset": "BERT-Large", "layers": 24, "embeddings": True},
        "devices": 8,
        "pareto": True,
    }
    begun = time.monotonic()
    result = document(body, baselines=False)
    assert time.monotonic() - begun < 60
    assert result["pareto_complete"]
    assert len(result["pareto"]) > 20


def test_of_points_as_good_in_both_one_stays() -> None:
    points = [FrontPoint((n,), r, s, 0, True) for n, (r, s) in enumerate([(5, 1), (5, 1), (4, 1)])]
    assert [point.choice for point in without_dominated(points)] == [(2,)]
