"""Bounds, greedy packings, exchanges and local search of one layer."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings

from planner.training.experts.bounds import least_largest_load, least_time_s
from planner.training.experts.greedy import improve, pack_largest_first
from planner.training.experts.layer import Layer, Packing
from planner.training.experts.problem import ExpertProblem
from planner.training.experts.routing import Routing
from planner.training.experts.search import search
from tests.unit.training.experts.small import COSTS, best_s, group_of, problems


def is_within(layer: Layer, packing: Packing) -> bool:
    counts = [len(own) for own in packing]
    return sorted(e for own in packing for e in own) == list(range(len(layer.weights))) and (
        counts == list(layer.capacity)
        if layer.equal
        else all(count <= most for count, most in zip(counts, layer.capacity, strict=True))
    )


def layer_of(weights: list[float], devices: int) -> Layer:
    routing = Routing((tuple(weights),), 1)
    (layer,) = ExpertProblem(routing, group_of(devices), COSTS).layers()
    return layer


@settings(max_examples=60, deadline=None)
@given(problems())
def test_nothing_is_below_the_bound_and_packings_stay_within_capacities(
    problem: ExpertProblem,
) -> None:
    (layer,) = problem.layers()
    optimum = best_s(problem)
    assert least_time_s(layer) <= optimum * (1 + 1e-9)
    first = pack_largest_first(layer)
    better = improve(layer, first, 0.0, lambda: False)
    rounds = iter(range(50))
    best = search(layer, better, 0.0, 1, lambda: next(rounds, None) is None)
    times = [layer.time_s(layer.loads(packing)) for packing in (first, better, best)]
    assert all(is_within(layer, packing) for packing in (first, better, best))
    assert times == sorted(times, reverse=True)
    assert times[-1] >= optimum * (1 - 1e-9)


@pytest.mark.parametrize(
    ("weights", "devices", "bound"),
    [
        ([1, 1, 1, 1], 2, 2),
        ([5, 1, 1, 1], 2, 6),  # The largest has company.
        ([5, 1, 1, 1], 4, 5),
        ([4, 4, 4, 1, 1, 1], 2, 9),  # Two of the three large ones meet, and a small one.
        ([5, 4, 4, 4, 1, 0], 3, 8),  # Two of the four large ones meet.
        ([2, 2, 1, 0], 2, 3),  # The mean in whole units.
    ],
)
def test_bounds_of_the_largest_load(weights: list[float], devices: int, bound: int) -> None:
    assert least_largest_load(layer_of(weights, devices)) == bound


def test_largest_first_is_what_it_is_known_for() -> None:
    """Graham's example of 1969: 11 where 9 is best, on three machines."""
    layer = Layer((5, 5, 4, 4, 3, 3, 3), (7,) * 3, False, (0,) * 3, 1.0, (1.0,) * 3, 0.0)
    first = pack_largest_first(layer)
    assert max(layer.loads(first)) == 11
    assert max(layer.loads(improve(layer, first, 0.0, lambda: False))) == 9


@pytest.mark.parametrize(("experts", "devices"), [(64, 8), (128, 8), (256, 32), (256, 64)])
def test_many_experts_are_evened_out(experts: int, devices: int) -> None:
    numbers = random.Random(experts)
    layer = layer_of([numbers.random() for _ in range(experts)], devices)
    packing = improve(layer, pack_largest_first(layer), 0.0, lambda: False)
    assert is_within(layer, packing)
    assert max(layer.loads(packing)) * devices / layer.total < 1.001


def test_exchanges_end_at_the_target_and_when_told() -> None:
    numbers = random.Random(5)
    layer = layer_of([numbers.random() for _ in range(64)], 8)
    first = pack_largest_first(layer)
    assert improve(layer, first, math.inf, lambda: False) == first
    assert improve(layer, first, 0.0, lambda: True) == first
    assert search(layer, first, 0.0, 0, lambda: True) == first


def test_the_seed_decides() -> None:
    numbers = random.Random(3)
    layer = layer_of([numbers.random() for _ in range(24)], 8)
    first = improve(layer, pack_largest_first(layer), 0.0, lambda: False)
    found = [search(layer, first, 0.0, 7, lambda: False) for _ in range(2)]
    assert found[0] == found[1]
