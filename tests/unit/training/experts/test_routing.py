"""Reading how often experts are chosen."""

from __future__ import annotations

import math

import pytest

from planner.errors import SpecError
from planner.training.experts.routing import LARGEST_TOTAL, Routing, read_routing_frequency


def test_one_list_is_for_all_layers() -> None:
    routing = read_routing_frequency([10, 30, 20, 20], 4, 3, 2)
    assert routing.layers == 3
    assert routing.experts == 4
    assert routing.frequencies(2) == pytest.approx((0.25, 0.75, 0.5, 0.5))
    assert routing.whole_weights == ((1, 3, 2, 2),) * 3


def test_lists_per_layer_are_normalised_each() -> None:
    routing = read_routing_frequency([[1, 1], [0.1, 0.3]], 2, 2, 1)
    assert routing.frequencies(0) == (0.5, 0.5)
    assert routing.frequencies(1) == pytest.approx((0.25, 0.75))
    assert routing.whole_weights == ((1, 1), (1, 3))
    assert routing.of_layers([1]).weights == ((0.1, 0.3),)


def test_numbers_of_many_digits_become_parts_of_a_power_of_two() -> None:
    weights = (1 / 3, 1e-9, math.pi, 0.0)
    (whole,) = Routing((weights,), 1).whole_weights
    assert sum(whole) == pytest.approx(LARGEST_TOTAL, abs=4)
    assert whole[3] == 0
    for weight, share in zip(weights, whole, strict=True):
        assert share / sum(whole) == pytest.approx(weight / sum(weights), rel=1e-5)


@pytest.mark.parametrize(
    ("raw", "path", "message"),
    [
        ("often", (), "must be a list"),
        ({"0": 1}, (), "must be a list"),
        ([1, 1, 1], (), "3 numbers for 4 experts"),
        ([1, -1, 1, 1], (1,), "greater than or equal to 0"),
        ([1, "1", 1, 1], (1,), "must be a number"),
        ([1, math.nan, 1, 1], (1,), "finite"),
        ([0, 0, 0, 0], (), "0 for every expert"),
        ([1e308] * 4, (), "more than a number can hold"),
        ([[1, 1, 1, 1]], (), "has 1 lists, but 2 layers"),
        ([[1, 1, 1, 1], [1, 1]], (1,), "2 numbers for 4 experts"),
        ([[1, 1, 1, 1], [1, 1, 1, None]], (1, 3), "must be a number"),
        ([[1, 1, 1, 1], 1], (1,), "must be a list like the others"),
        ([5, 1, 1, 1], (0,), "expert 0 62.5% of all choices"),
    ],
)
def test_what_is_wrong_is_named(raw: object, path: tuple[int, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        read_routing_frequency(raw, 4, 2, 2)
    assert caught.value.path == ("routing_frequency", *path)


def test_an_expert_may_be_chosen_by_every_token() -> None:
    routing = read_routing_frequency([0.5, 0.25, 0.25], 3, 1, 2)
    assert routing.frequencies(0) == (1.0, 0.5, 0.5)
