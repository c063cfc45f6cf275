"""The verification of plans: every rule, by plans that break it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from planner.sharding.instance import Edge, Instance, OperatorChoice, Plan, StrategyCost
from planner.sharding.verify import find_violations

OPERATOR = OperatorChoice("linear", (StrategyCost("a", 5, 2, 10), StrategyCost("b", 0, 8, 4)))
INSTANCE = Instance(
    (OPERATOR, replace(OPERATOR, name="next")),
    (Edge(0, 1, ((0, 3), (4, 0))),),
    alpha=0.5,
    device_memory_bytes=15,
)
PLAN = Plan((0, 1), 5 + 0.5 * (2 + 8 + 3), 14, "optimal", 11.5)


def rules(plan: Plan, instance: Instance = INSTANCE) -> list[str]:
    return [violation.rule for violation in find_violations(instance, plan)]


def test_a_plan_that_keeps_all_rules() -> None:
    assert rules(PLAN) == []
    assert rules(replace(PLAN, status="feasible", lower_bound=None)) == []
    assert rules(replace(PLAN, status="feasible", lower_bound=3.0)) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"choice": (0,)}, "one strategy per operator"),
        ({"choice": (0, 2)}, "one strategy per operator"),
        ({"choice": (0, -1)}, "one strategy per operator"),
        ({"objective": 11.4}, "objective"),
        ({"objective": float("nan")}, "objective"),
        ({"memory_bytes": 15}, "memory"),
        ({"status": "proven"}, "status"),
        ({"lower_bound": 11.3}, "status"),
        ({"lower_bound": None}, "status"),
        ({"lower_bound": 11.6}, "lower bound"),
        ({"lower_bound": float("nan"), "status": "feasible"}, "lower bound"),
    ],
)
def test_a_plan_that_breaks_a_rule(changes: dict[str, Any], rule: str) -> None:
    assert rules(replace(PLAN, **changes)) == [rule] or rule in rules(replace(PLAN, **changes))


def test_a_plan_that_does_not_fit() -> None:
    instance = replace(INSTANCE, device_memory_bytes=13)
    (violation,) = find_violations(instance, PLAN)
    assert str(violation) == "device memory: 14 bytes on a device of 13"


@pytest.mark.parametrize(
    ("edge", "rule"),
    [
        (Edge(0, 1, ((0, 3),)), "resharding tables"),
        (Edge(0, 1, ((0, 3), (4,))), "resharding tables"),
        (Edge(0, 2, ((0, 3), (4, 0))), "edges"),
        (Edge(1, 1, ((0, 3), (4, 0))), "edges"),
    ],
)
def test_an_instance_that_is_none(edge: Edge, rule: str) -> None:
    assert rules(PLAN, replace(INSTANCE, edges=(edge,))) == [rule]
