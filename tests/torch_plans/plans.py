"""Plans by name, for graphs of transformer layers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from planner.sharding.graph import Graph
from planner.sharding.operators.registry import rules_of
from planner.sharding.operators.rule import Degrees, RuleOptions
from planner.sharding.strategies import Strategy, strategies_of
from planner.sharding.training import read_sharding_training
from planner.sharding.transformer.request import read_transformer

Plan = Mapping[str, Strategy]

SECOND = frozenset({"proj", "fc2"})
FEED_FORWARD = frozenset({"fc1", "gelu", "fc2"})
WHOLE = frozenset({"x", "ln1", "ln2", "add1", "add2"})


def layer_graph(
    devices: int = 4, *, dtype: str = "fp32", flash: bool = True, **sizes: Any
) -> Graph:
    """One layer of the planner's own transformer."""
    training = read_sharding_training({"precision": dtype, "flash_attention": flash})
    return read_transformer(sizes, training, devices).graph


def choices(graph: Graph, devices: int) -> dict[str, tuple[Strategy, ...]]:
    """All strategies of each operator."""
    return {
        own.name: strategies_of(rules_of(own, graph, RuleOptions()), devices)
        for own in graph.operators
    }


def plan_of(graph: Graph, degrees: Mapping[str, tuple[int, int, int]]) -> Plan:
    """The strategies with these degrees (data, row, column)."""
    found = {}
    for name, strategies in choices(graph, _product(next(iter(degrees.values())))).items():
        by_degrees = {strategy.degrees: strategy for strategy in strategies}
        found[name] = by_degrees[Degrees(*degrees[name])]
    return found


def _product(degrees: tuple[int, int, int]) -> int:
    return degrees[0] * degrees[1] * degrees[2]


def data_parallel(graph: Graph, devices: int) -> Plan:
    """Every operator splits the batch."""
    return plan_of(graph, {own.name: (devices, 1, 1) for own in graph.operators})


def tensor_parallel(graph: Graph, data: int, ways: int) -> Plan:
    """As Megatron-LM does it: the first of two linear layers by columns, the second by rows, and
    whole tensors outside, which row copies leave as they are."""
    return plan_of(
        graph,
        {
            own.name: (data, ways, 1) if own.name in SECOND | WHOLE else (data, 1, ways)
            for own in graph.operators
        },
    )


def mixed(graph: Graph, attention: Plan, feed_forward: Plan) -> Plan:
    """One plan for the feed-forward, the other for the rest."""
    return {
        own.name: (feed_forward if own.name in FEED_FORWARD else attention)[own.name]
        for own in graph.operators
    }


def random_plan(graph: Graph, devices: int, seed: int) -> Plan:
    """A strategy for each operator by lot."""
    draw = random.Random(seed)
    return {name: draw.choice(found) for name, found in choices(graph, devices).items()}
