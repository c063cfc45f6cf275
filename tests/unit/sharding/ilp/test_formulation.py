"""The model: what its columns and rows say of plans."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from planner.sharding.ilp.descent import descend
from planner.sharding.ilp.formulation import Formulation, Limits
from planner.sharding.instance import Edge, Instance, OperatorChoice, StrategyCost, totals
from planner.sharding.tables import CostTables, Weights
from tests.sharding_instances import brute_force, every_plan, instances

SMALL = instances(most_operators=5, most_strategies=3)


def formulate(
    instance: Instance, known: float | None = None, communication: int | None = None
) -> Formulation:
    limits = Limits(instance.device_memory_bytes, communication)
    return Formulation(CostTables(instance), Weights(1.0, instance.alpha), limits, known)


def holds(formulation: Formulation, values: list[float]) -> bool:
    if any(value > upper for value, upper in zip(values, formulation.upper, strict=True)):
        return False
    for columns, coefficients, sense, right_side in formulation.rows:
        left = sum(c * values[i] for i, c in zip(columns, coefficients, strict=True))
        if not (left == right_side if sense == "=" else left <= right_side):
            return False
    return True


@settings(max_examples=100, deadline=None)
@given(SMALL)
def test_every_plan_that_fits_satisfies_the_rows_and_costs_what_it_costs(
    instance: Instance,
) -> None:
    formulation = formulate(instance)
    for choice, sums in itertools.islice(every_plan(instance), 60):
        values = formulation.values(choice)
        assert holds(formulation, values)
        single = [len(operator.strategies) == 1 for operator in instance.operators]
        expected = tuple(0 if s else k for s, k in zip(single, choice, strict=True))
        assert formulation.choice(values) == expected
        units = float(np.dot(formulation.objective, values))
        assert formulation.offset_bytes + formulation.unit_bytes * units == pytest.approx(
            sums.objective(instance.alpha)
        )


@settings(max_examples=100, deadline=None)
@given(SMALL)
def test_a_known_plan_cuts_off_no_cost_below_its_own(instance: Instance) -> None:
    best = brute_force(instance)
    if best is None:
        return
    formulation = formulate(instance, known=best)
    for choice, sums in itertools.islice(every_plan(instance), 60):
        units = float(np.dot(formulation.objective, formulation.values(choice)))
        found = formulation.offset_bytes + formulation.unit_bytes * units
        objective = sums.objective(instance.alpha)
        assert found <= objective * (1 + 1e-9) + 1e-9
        assert found >= min(objective, best) * (1 - 1e-9) - 1e-9
        bound = formulation.bound_bytes(units, 15)
        assert formulation.offset_bytes <= bound <= found + 1e-9


@settings(max_examples=60, deadline=None)
@given(SMALL)
def test_what_is_cut_off_is_over_the_limit(instance: Instance) -> None:
    whole = replace(instance, device_memory_bytes=None)
    plans = list(itertools.islice(every_plan(whole), 60))
    costliest, sums = max(plans, key=lambda plan: plan[1].memory_bytes)
    limit = sums.memory_bytes - 1
    if all(sums.memory_bytes > limit for _, sums in plans):
        return
    formulation = formulate(whole)
    formulation.forbid(costliest, "memory")
    for choice, sums in plans:
        assert holds(formulation, formulation.values(choice)) or sums.memory_bytes > limit
    assert not holds(formulation, formulation.values(costliest))


def test_strategies_with_the_same_layout_share_their_columns() -> None:
    operators = tuple(
        OperatorChoice(name, tuple(StrategyCost(f"s{k}", k, 0, 0) for k in range(4)))
        for name in "abc"
    )
    two_classes = ((0, 0, 5, 5), (0, 0, 5, 5), (7, 7, 0, 0), (7, 7, 0, 0))
    sums_of_ends = tuple(tuple(3 * i + j for j in range(4)) for i in range(4))
    edges = (Edge(0, 1, two_classes), Edge(1, 2, sums_of_ends), Edge(2, 0, ((8,) * 4,) * 4))
    formulation = formulate(Instance(operators, edges, 1.0))
    assert formulation.columns == 12 + 2 * 2
    assert len(formulation.rows) == 3 + 2 + 2


def test_an_operator_without_a_choice_has_no_columns() -> None:
    fixed = OperatorChoice("fixed", (StrategyCost("only", 5, 1, 3),))
    free = OperatorChoice("free", (StrategyCost("a", 2, 0, 1), StrategyCost("b", 0, 0, 2)))
    instance = Instance((fixed, free), (Edge(0, 1, ((4, 9),)),), 1.0)
    formulation = formulate(instance)
    assert formulation.columns == 2
    assert formulation.offset_bytes == 5 + 1 + 2 + 4
    assert formulation.choice(formulation.values((0, 1))) == (0, 1)


def test_layouts_differ_under_a_limit_on_communication_that_costs_nothing() -> None:
    ends = tuple(
        OperatorChoice(name, tuple(StrategyCost(f"s{k}", k, 0, 0) for k in range(2)))
        for name in "ab"
    )
    instance = Instance(ends, (Edge(0, 1, ((0, 5), (5, 0))),), alpha=0.0)
    assert formulate(instance).columns == 4
    assert formulate(instance, communication=9).columns == 8


@settings(max_examples=100, deadline=None)
@given(SMALL)
def test_a_quick_plan_fits_and_no_single_change_betters_it(instance: Instance) -> None:
    weights = Weights(1.0, instance.alpha)
    limit = instance.device_memory_bytes
    choice = descend(CostTables(instance), weights, limit, lambda: False)
    if choice is None:
        assert brute_force(instance) is None
        return
    fitting = dict(every_plan(instance))
    objective = fitting[choice].objective(instance.alpha)
    for other, sums in fitting.items():
        if sum(a != b for a, b in zip(choice, other, strict=True)) == 1:
            assert objective <= sums.objective(instance.alpha) * (1 + 1e-12) + 1e-12
    assert totals(instance, choice) == fitting[choice]
