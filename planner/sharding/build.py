"""From a graph and a group of devices to the instance that is solved."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from planner.progress import StopCheck, check, never, watched
from planner.sharding.choices import Allowed, everything, graph_choices
from planner.sharding.costs import CostSettings, OperatorCosts
from planner.sharding.folding import layer_operators
from planner.sharding.graph import Graph
from planner.sharding.instance import Edge, Instance, OperatorChoice, StrategyCost
from planner.sharding.operators.rule import Rule, RuleOptions
from planner.sharding.passages import OPERATORS_BETWEEN_CHECKS, Passage, Passages, Table
from planner.sharding.strategies import Strategy


@dataclass(frozen=True)
class Formulation:
    """Everything about a graph on a group of devices: strategies, costs and passages.

    `times[v]` says how many operators the folded operator v stands for.
    """

    graph: Graph
    settings: CostSettings
    saved: frozenset[str]
    strategies: tuple[tuple[Strategy, ...], ...]
    costs: tuple[tuple[StrategyCost, ...], ...]
    passages: tuple[Passage, ...]
    times: tuple[int, ...]
    warnings: tuple[str, ...]

    def instance(self, alpha: float, device_memory_bytes: int | None) -> Instance:
        """The instance for one weight of communication; folded layers count as often as they are.

        Parallel passages between two operators become one edge, and passages within one operator
        part of its own communication.
        """
        tables: dict[tuple[int, int], Table] = {}
        own: dict[int, Table] = {}
        for passage in self.passages:
            table = passage.times * passage.table
            if passage.source == passage.target:
                own[passage.source] = own.get(passage.source, 0) + np.diagonal(table)
            else:
                key = passage.source, passage.target
                tables[key] = tables[key] + table if key in tables else table
        return Instance(
            operators=tuple(
                OperatorChoice(operator.name, self._weighted(number, own.get(number)))
                for number, operator in enumerate(self.graph.operators)
            ),
            edges=tuple(
                Edge(source, target, tuple(map(tuple, table.tolist())))
                for (source, target), table in tables.items()
            ),
            alpha=alpha,
            device_memory_bytes=device_memory_bytes,
        )

    def _weighted(self, number: int, resharded: Table | None) -> tuple[StrategyCost, ...]:
        times = self.times[number]
        if times == 1 and resharded is None:
            return self.costs[number]
        extra = [0] * len(self.costs[number]) if resharded is None else resharded.tolist()
        return tuple(
            replace(
                cost,
                redundant_bytes=times * cost.redundant_bytes,
                communication_bytes=times * cost.communication_bytes + more,
                memory_bytes=times * cost.memory_bytes,
            )
            for cost, more in zip(self.costs[number], extra, strict=True)
        )


def formulate(
    graph: Graph,
    settings: CostSettings,
    options: RuleOptions,
    allowed: Allowed = everything,
    *,
    with_passages: bool = True,
    should_stop: StopCheck = never,
) -> Formulation:
    """Strategies of every operator with their costs, and what every passage costs.

    `allowed` leaves out strategies; at least one per operator has to stay. Without passages only
    memory and redundancy are right. Raises `SpecError` where an operator's shapes make no sense,
    and `Interrupted` if told to stop.
    """
    check(should_stop)
    choices = graph_choices(graph, options, settings.devices.count, allowed)
    folded = layer_operators(graph)
    saved = saved_tensors(graph, choices.rules, folded)
    strategies = choices.strategies
    count = graph.repeat.count if graph.repeat else 1
    models = [OperatorCosts(each, graph.tensors, saved, settings) for each in graph.operators]
    return Formulation(
        graph=graph,
        settings=settings,
        saved=saved,
        strategies=strategies,
        costs=_costs(models, strategies, should_stop),
        passages=tuple(Passages(graph, settings, strategies, folded, models, should_stop).all())
        if with_passages
        else (),
        times=tuple(count if v in folded else 1 for v in range(len(graph.operators))),
        warnings=choices.warnings,
    )


def _costs(
    models: Sequence[OperatorCosts],
    strategies: Sequence[Sequence[Strategy]],
    should_stop: StopCheck,
) -> tuple[tuple[StrategyCost, ...], ...]:
    """Those of each operator; of operators that are alike, as in each of many layers, once."""
    known: dict[Hashable, tuple[StrategyCost, ...]] = {}
    costs = []
    operators = watched(models, should_stop, OPERATORS_BETWEEN_CHECKS)
    for model, own in zip(operators, strategies, strict=True):
        rules = {id(strategy.rule): strategy.rule for strategy in own}
        key = model.sizes, tuple(rules.values()), tuple(strategy.name for strategy in own)
        if key not in known:
            known[key] = tuple(map(model.of, own))
        costs.append(known[key])
    return tuple(costs)


def saved_tensors(graph: Graph, rules: Sequence[Rule], folded: frozenset[int]) -> frozenset[str]:
    """The tensors that someone keeps for the backward; who keeps a view keeps what it shows.

    A repeated layer's output counts as kept where the next layer keeps it, the last layer's too.
    `folded` are the operators of the layer.
    """
    repeat = graph.repeat if graph.repeat and graph.repeat.count > 1 else None

    def read(number: int, tensor: str) -> tuple[str, ...]:
        is_passed_on = repeat and number in folded and tensor == repeat.input
        return (tensor, repeat.output) if repeat and is_passed_on else (tensor,)

    saved: set[str] = set()
    shown: dict[str, tuple[str, ...]] = {}
    for number, (operator, rule) in enumerate(zip(graph.operators, rules, strict=True)):
        for tensor, own in zip(operator.inputs, rule.inputs, strict=True):
            if own.saved:
                saved.update(read(number, tensor))
        for tensor, output in zip(operator.outputs, rule.outputs, strict=True):
            if output.saved:
                saved.add(tensor)
            if output.is_view:
                shown[tensor] = read(number, operator.inputs[0])
    # Views at a layer's start show the output of the one before, which may be a view itself.
    for view in (*reversed(shown), *reversed(shown)):
        if view in saved:
            saved.update(shown[view])
    return frozenset(saved)
