"""The verifier finds what is wrong with a placement."""

from __future__ import annotations

from dataclasses import replace

from planner.training.experts.place import Placement, place_quickly
from planner.training.experts.problem import ExpertProblem
from planner.training.experts.routing import Routing
from planner.training.experts.verify import find_violations
from tests.unit.training.experts.small import COSTS, group_of

PROBLEM = ExpertProblem(
    Routing(((8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0),) * 2, 1), group_of(4, 2, 10**10), COSTS
)
GOOD = place_quickly(PROBLEM)
LAYER = GOOD.experts_of_device[0]


def broken(placement: Placement) -> list[str]:
    return [violation.rule for violation in find_violations(placement)]


def with_layer(layer: tuple[tuple[int, ...], ...]) -> Placement:
    return replace(GOOD, experts_of_device=(layer, LAYER))


def test_a_good_one() -> None:
    assert broken(GOOD) == []
    assert LAYER == ((0, 7), (1, 6), (2, 5), (3, 4))


def test_experts_that_are_missing_or_held_twice() -> None:
    for layer in (((0, 7), (1, 6), (2, 5), (3, 3)), ((0, 7), (1, 6), (2, 5), (3, 8))):
        assert broken(with_layer(layer)) == ["one device per expert"]
    assert broken(with_layer(LAYER[:3])) == ["devices", "one device per expert"]
    assert broken(replace(GOOD, experts_of_device=(LAYER,))) == ["layers"]


def test_unequal_counts() -> None:
    uneven = ((0,), (1, 6, 7), (2, 5), (3, 4))
    assert broken(with_layer(uneven)) == ["equal counts"]
    free = replace(PROBLEM, equal_counts=False)
    assert broken(replace(with_layer(uneven), problem=free)) == ["time", "proof"]


def test_memory() -> None:
    small = replace(PROBLEM, group=group_of(4, 2, 4 * 10**9 - 1))
    assert broken(replace(GOOD, problem=small)) == ["memory"] * 4


def test_a_time_that_is_not_true() -> None:
    swapped = ((0, 6), (1, 7), (2, 5), (3, 4))
    assert broken(with_layer(swapped)) == ["time", "proof"]


def test_a_bound_above_the_time() -> None:
    packed = replace(GOOD.packed[0], bound_s=2 * GOOD.packed[0].time_s)
    assert broken(replace(GOOD, packed=(packed, packed))) == ["bound"]


def test_a_proof_without_its_bound() -> None:
    packed = replace(GOOD.packed[0], bound_s=0.9 * GOOD.packed[0].time_s)
    assert broken(replace(GOOD, packed=(packed, packed))) == ["proof"]
