"""Ways to split an operator: how many there are, which shapes allow, and what stands in the way."""

from __future__ import annotations

import math

import pytest

from planner.sharding.choices import graph_choices
from planner.sharding.graph import Graph, Operator, Parameter, Tensor
from planner.sharding.operators.rule import Degrees, RuleOptions
from planner.sharding.strategies import factorisations, strategies_of, why_not
from tests.unit.sharding.operators.operators import rule, rules

PUBLISHED = {2: 3, 4: 6, 6: 9, 8: 10, 12: 18, 16: 15, 32: 21, 64: 28}


@pytest.mark.parametrize(("devices", "count"), PUBLISHED.items())
def test_number_of_strategies(devices: int, count: int) -> None:
    found = factorisations(devices)
    assert len(set(found)) == len(found) == count
    assert all(math.prod(degrees) == devices for degrees in found)
    linear = rules("linear", [(64, 64)], [(64, 64)], [(64, 64)])
    if 64 % devices == 0:
        assert len(strategies_of(linear, devices)) == count


def test_one_device_has_one_strategy() -> None:
    (only,) = strategies_of(rules("gelu", [(3, 5)], [(3, 5)]), 1)
    assert only.name == "d1-r1-c1"


def test_degrees_divide_batch_heads_and_channels() -> None:
    """6 samples, 16 features in, 4 heads out, on 8 devices."""
    own = rules("linear", [(6, 16)], [(6, 32)], [(16, 32)], column_units=4)
    names = [strategy.name for strategy in strategies_of(own, 8)]
    assert names == ["d1-r2-c4", "d1-r4-c2", "d1-r8-c1", "d2-r1-c4", "d2-r2-c2", "d2-r4-c1"]


def test_largest_part_of_the_devices_that_fits_shares_the_work() -> None:
    """No 12 or 6 devices divide 4 samples, 5 and 7 features, but 4 and 2 do: 3 do the same."""
    own = rules("linear", [(4, 5)], [(4, 7)], [(5, 7)])
    (only,) = strategies_of(own, 12)
    assert only.name == "d4-r1-c1-x3"
    assert only.spare == 3


def test_repeated_work_is_warned_of() -> None:
    x, y = Tensor("x", (3, 5), "bf16"), Tensor("y", (3, 7), "bf16")
    operators = (
        Operator("x", "input", (), ("x",)),
        Operator("fc", "linear", ("x",), ("y",), (Parameter("w", (5, 7)),)),
    )
    graph = Graph(operators, {"x": x, "y": y})
    choices = graph_choices(graph, RuleOptions(), 4)
    assert [own.name for own in choices.strategies[1]] == ["d1-r1-c1-x4"]
    (warning,) = choices.warnings
    assert warning.startswith("fc: no way to split it over all devices")
    assert "4 times over" in warning


def test_names_of_second_rules() -> None:
    own = rules("layer_norm", [(4, 8, 16)], [(4, 8, 16)], [(16,)], sequence_parallel=True)
    names = [strategy.name for strategy in strategies_of(own, 2)]
    # Data parallelism alone has no sequence to split.
    assert names == ["d1-r1-c2", "d1-r2-c1", "d2-r1-c1", "d1-r1-c2-sp", "d1-r2-c1-sp"]


def test_why_not() -> None:
    own = rule("linear", [(8, 512, 1024)], [(8, 512, 3072)], [(1024, 3072)], column_units=16)
    assert why_not(own, Degrees(8, 64, 16)) is None
    assert why_not(own, Degrees(16, 1, 1)) == "data 16 does not divide the batch (8)"
    assert why_not(own, Degrees(1, 3, 1)) == "row 3 does not divide the row units (1024)"
    assert why_not(own, Degrees(1, 1, 32)) == "column 32 does not divide the column units (16)"


def test_why_not_key_heads() -> None:
    own = rule("attention", [(8, 32, 64, 16), *[(8, 8, 64, 16)] * 2], [(8, 32, 64, 16)])
    assert why_not(own, Degrees(1, 1, 16)) == (
        "column 16 does not divide the key and value heads (8)"
    )
    assert why_not(own, Degrees(1, 7, 1)) is None


def test_why_not_together() -> None:
    """Data and row devices of experts have samples of their own."""
    own = rule(
        "experts",
        [(4, 8, 16), (4, 8, 8)],
        [(4, 8, 16)],
        [(8, 16, 32), (8, 32, 16)],
        experts_per_token=2,
    )
    assert why_not(own, Degrees(2, 2, 1)) is None
    assert why_not(own, Degrees(2, 4, 1)) == "8 devices do not divide the batch (4)"
