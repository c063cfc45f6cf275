"""Why not this strategy? The answers against trying every plan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from planner.sharding.instance import Instance
from planner.sizes import gib
from tests.sharding_instances import every_plan
from tests.unit.sharding.posted import (
    Body,
    bodies,
    document,
    extremes,
    instance_of,
    repeated,
    solve,
    strategies,
    two_layers,
)

SMALL: Body = {"graph": two_layers(), "devices": 4}


def ask(body: Body, operator: str, strategy: str) -> dict[str, Any]:
    question = {"operator": operator, "strategy": strategy}
    (explanation,) = document({**body, "explain": [question]}, baselines=False)["explanations"]
    assert explanation["operator"] == operator
    assert explanation["strategy"] == strategy
    found: dict[str, Any] = explanation
    return found


def best_with(instance: Instance, operator: str, strategy: str) -> float:
    v = [own.name for own in instance.operators].index(operator)
    k = [own.name for own in instance.operators[v].strategies].index(strategy)
    return min(
        sums.objective(instance.alpha) for choice, sums in every_plan(instance) if choice[v] == k
    )


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies(most_operators=3))
def test_the_difference_is_that_of_the_best_plan_with_it(body: Body) -> None:
    assume("device_memory_bytes" not in body)
    free = document(body, baselines=False)
    instance = instance_of(free)
    questions = [
        {"operator": own.name, "strategy": strategy.name}
        for own in instance.operators
        for strategy in own.strategies
    ][::4][:6]
    result = document({**body, "explain": questions}, baselines=False)
    assert len(result["explanations"]) == len(questions)
    for explanation in result["explanations"]:
        best = best_with(instance, explanation["operator"], explanation["strategy"])
        assert explanation["possible"]
        # Beside costs of 10^9 bytes an engine cannot tell a few bytes from none, and says so.
        assert explanation["proven"] or instance.alpha >= 1e9
        assert explanation["objective"] == pytest.approx(best, rel=1e-6)
        more = explanation["objective_difference"]
        assert more == pytest.approx(best - free["plan"]["objective"], rel=1e-6, abs=1)
        sent = (
            explanation["communication_bytes_difference"]
            + explanation["resharding_bytes_difference"]
        )
        told = explanation["redundant_bytes_difference"] + instance.alpha * sent
        assert told == pytest.approx(more, rel=1e-6, abs=1e-3 * max(1, abs(sent)))


def test_what_costs_more() -> None:
    explanation = ask(SMALL, "up", "d4-r1-c1")
    assert explanation["reason"] == "the best plan with it costs more"
    assert explanation["objective_difference"] > 0
    assert explanation["strategies"][1] == "d4-r1-c1"


def test_what_the_plan_has_and_what_is_as_good() -> None:
    plan = strategies(document(SMALL, baselines=False))
    explanation = ask(SMALL, "up", plan["up"])
    assert explanation["reason"] == "the plan has it"
    assert explanation["objective_difference"] == 0
    alone = {"inputs": [{"name": "x", "shape": [4, 4], "dtype": "bf16"}]}
    alone["operators"] = [
        {
            "name": "y",
            "kind": "gelu",
            "inputs": ["x"],
            "outputs": [{"name": "y", "shape": [4, 4], "dtype": "bf16"}],
        }
    ]
    body = {"graph": alone, "devices": 2}
    own = strategies(document(body, baselines=False))["y"]
    other = {"d2-r1-c1": "d1-r1-c2", "d1-r1-c2": "d2-r1-c1"}[own]
    assert "one of several" in ask(body, "y", other)["reason"]


def test_what_does_not_fit() -> None:
    body = {**SMALL, "device_memory_bytes": int(extremes(SMALL)[0] * 1.3)}
    explanation = ask(body, "up", "d4-r1-c1")
    assert explanation["possible"] is False
    assert "every plan with it keeps at least" in explanation["reason"]
    assert gib(body["device_memory_bytes"]) in explanation["reason"]


def test_what_a_prohibition_or_a_pin_costs() -> None:
    best = document(SMALL, baselines=False)
    own = strategies(best)["up"]
    for bound in ({"forbid": {"up": [own]}}, {"pin": {"up": "d4-r1-c1"}}):
        explanation = ask({**SMALL, **bound}, "up", own)
        assert "pins or prohibitions rule out" in explanation["reason"]
        assert explanation["objective"] == best["plan"]["objective"]
        assert explanation["objective_difference"] < 0


def test_other_pins_stay_when_a_question_is_answered() -> None:
    body = {**SMALL, "pin": {"down": "d2-r1-c2"}}
    explanation = ask(body, "up", "d2-r2-c1")
    assert explanation["strategies"][1] == "d2-r2-c1"
    assert explanation["strategies"][3] == "d2-r1-c2"


def test_layers_written_out_can_be_asked_for_together_or_one_by_one() -> None:
    body = {"graph": repeated(2), "devices": 2, "solver": {"exact": True}}
    names = list(strategies(document(body, baselines=False)))
    both = ask(body, "up", "d2-r1-c1")
    one = ask(body, "layer1.up", "d2-r1-c1")
    of = {name: number for number, name in enumerate(names)}
    assert [both["strategies"][of[f"layer{k}.up"]] for k in (0, 1)] == ["d2-r1-c1"] * 2
    assert one["strategies"][of["layer1.up"]] == "d2-r1-c1"
    assert one["objective"] <= both["objective"]


def test_each_stage_answers_for_its_own_operators() -> None:
    body = {
        "graph": repeated(4),
        "devices": 4,
        "stages": 2,
        "explain": [
            {"operator": "classes", "strategy": "d2-r1-c1"},
            {"operator": "up", "strategy": "d2-r1-c1"},
        ],
    }
    first, last = document(body, baselines=False)["stages"]
    assert [own["operator"] for own in first["explanations"]] == ["up"]
    assert [own["operator"] for own in last["explanations"]] == ["classes", "up"]


def test_when_the_time_is_over_questions_stay_open() -> None:
    question = {"operator": "up", "strategy": "d4-r1-c1"}
    answer = solve({**SMALL, "explain": [question]}, time_left_s=0.0, baselines=False)
    (explanation,) = answer["document"]["explanations"]
    assert explanation == {
        **question,
        "possible": None,
        "reason": "no time was left to look at it",
    }
