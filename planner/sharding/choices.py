"""The rules and strategies of every operator of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from planner.sharding.graph import Graph, Operator
from planner.sharding.operators.registry import rules_of
from planner.sharding.operators.rule import Rule, RuleOptions
from planner.sharding.strategies import Strategy, strategies_of

Allowed = Callable[[Operator, Strategy], bool]


@dataclass(frozen=True, slots=True)
class Choices:
    """Per operator its first rule and its strategies; what is unusual about them in words."""

    rules: tuple[Rule, ...]
    strategies: tuple[tuple[Strategy, ...], ...]
    warnings: tuple[str, ...]


def everything(_operator: Operator, _strategy: Strategy) -> bool:
    """Allows every strategy."""
    return True


def graph_choices(
    graph: Graph, options: RuleOptions, devices: int, allowed: Allowed = everything
) -> Choices:
    """All strategies that the shapes and `allowed` leave; at least one per operator has to stay.

    Raises `SpecError` where an operator's shapes make no sense.
    """
    rules = [rules_of(operator, graph, options) for operator in graph.operators]
    strategies = tuple(
        tuple(strategy for strategy in strategies_of(own, devices) if allowed(operator, strategy))
        for operator, own in zip(graph.operators, rules, strict=True)
    )
    return Choices(
        rules=tuple(own[0] for own in rules),
        strategies=strategies,
        warnings=tuple(_warnings(graph.operators, rules, strategies)),
    )


def _warnings(
    operators: Sequence[Operator],
    rules: Sequence[Sequence[Rule]],
    strategies: Sequence[Sequence[Strategy]],
) -> Iterator[str]:
    for operator, own, found in zip(operators, rules, strategies, strict=True):
        yield from (f"{operator.name}: {text}" for rule in own for text in rule.warnings)
        spare = found[0].spare
        if spare > 1:
            yield (
                f"{operator.name}: no way to split it over all devices fits its shapes; its work "
                f"is done {spare} times over."
            )
