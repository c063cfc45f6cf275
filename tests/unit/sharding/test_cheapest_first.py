"""Plans in the order of what they cost are all plans, and in that order."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings

from planner.progress import never
from planner.sharding.cheapest_first import CheapestFirst
from planner.sharding.elimination_problem import TooLarge
from planner.sharding.instance import Instance
from tests.sharding_instances import chain, every_plan, instances


@settings(max_examples=200, deadline=None)
@given(instances(most_operators=6))
def test_every_plan_that_keeps_no_more_than_the_limit_comes_once_in_order(
    instance: Instance,
) -> None:
    found = list(CheapestFirst(instance, never))
    wanted = {choice: sums.objective(instance.alpha) for choice, sums in every_plan(instance)}
    assert len(found) == len(wanted)
    assert {choice for _, choice in found} == set(wanted)
    for (value, choice), in_order in zip(found, sorted(wanted.values()), strict=True):
        assert value == pytest.approx(wanted[choice], rel=1e-9)
        assert value == pytest.approx(in_order, rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(instances(most_operators=5))
def test_penalties_count_like_costs(instance: Instance) -> None:
    penalties = [
        np.arange(len(operator.strategies), dtype=np.float64) * (v + 1)
        for v, operator in enumerate(instance.operators)
    ]
    wanted = sorted(
        sums.objective(instance.alpha)
        + sum(own[k] for own, k in zip(penalties, choice, strict=True))
        for choice, sums in every_plan(instance)
    )
    assert [value for value, _ in CheapestFirst(instance, never, penalties)] == pytest.approx(
        wanted, rel=1e-9
    )


def test_the_first_plans_of_very_many_come_at_once() -> None:
    free = replace(chain(200, 10), device_memory_bytes=None)
    values = [value for value, _ in islice(CheapestFirst(free, never), 50)]
    assert values == sorted(values)
    assert len(values) == 50


def test_a_search_that_finds_no_plan_ends_and_says_what_is_left() -> None:
    instance = chain(40, 10)
    in_order = CheapestFirst(instance, never, most_steps=1_000)
    assert list(in_order) == []
    free = CheapestFirst(replace(instance, device_memory_bytes=None), never)
    assert math.inf > in_order.least_left > next(iter(free))[0]


def test_too_large_tables_and_a_stop_are_said() -> None:
    with pytest.raises(TooLarge):
        CheapestFirst(chain(20, 10), never, most_entries=100)
    with pytest.raises(TooLarge):
        CheapestFirst(chain(20, 10), lambda: True)
