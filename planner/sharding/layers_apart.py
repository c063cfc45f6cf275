"""Whether layers that differ from each other would be better than those of a folded plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.sharding.build import Formulation
from planner.sharding.elimination import TooLarge, find_optimum
from planner.sharding.folding import layer_operators
from planner.sharding.instance import Edge, Instance, OperatorChoice, Plan
from planner.sharding.passages import Passage

MOST_ENTRIES = 30_000_000


def best_of_layers_apart(
    formulation: Formulation, alpha: float, should_stop: Callable[[], bool]
) -> Plan | None:
    """The best plan with strategies of its own for each layer, whatever memory it takes, by exact
    elimination; None where the graph is too large or too dense for that."""
    instance = written_out(formulation, alpha)
    try:
        return find_optimum(instance, most_entries=MOST_ENTRIES, should_stop=should_stop)
    except TooLarge:
        return None


def written_out(formulation: Formulation, alpha: float) -> Instance:
    """The instance of a folded graph with an operator for each layer's, without a memory limit.

    Made of the folded graph's costs, so that no layer is looked at twice: the operators around the
    layers first, then layer after layer.
    """
    folded = layer_operators(formulation.graph)
    operators = formulation.graph.operators
    outside = [v for v in range(len(operators)) if v not in folded]
    inside = sorted(folded)
    count = formulation.graph.repeat.count if formulation.graph.repeat else 1
    number = {(v, 0): place for place, v in enumerate(outside)}
    for layer in range(count):
        for place, v in enumerate(inside):
            number[v, layer] = len(outside) + layer * len(inside) + place
    choices = [OperatorChoice(operators[v].name, formulation.costs[v]) for v in outside]
    for layer in range(count):
        choices += [
            OperatorChoice(f"layer{layer}.{operators[v].name}", formulation.costs[v])
            for v in inside
        ]
    edges = []
    for passage in formulation.passages:
        table = tuple(map(tuple, passage.table.tolist()))
        for source, target in _places(passage, folded, count):
            edges.append(
                Edge(number[passage.source, source], number[passage.target, target], table)
            )
    return Instance(tuple(choices), tuple(edges), alpha, None)


def _places(passage: Passage, folded: frozenset[int], count: int) -> Iterator[tuple[int, int]]:
    """The layers of source and target (0 for what lies outside) of each time that it occurs."""
    if passage.target not in folded:
        yield (count - 1 if passage.source in folded else 0), 0
    elif passage.source not in folded:
        # The layers' input reaches the first layer only, all else each of them.
        for layer in range(passage.times):
            yield 0, layer
    elif passage.times == count:
        for layer in range(count):
            yield layer, layer
    else:
        for layer in range(passage.times):
            yield layer, layer + 1
