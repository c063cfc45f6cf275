"""Which strategies the pins and prohibitions of a spec leave, whichever way layers are written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from planner.sharding.choices import Allowed
from planner.sharding.folding import layer_operators
from planner.sharding.graph import Graph, Operator
from planner.sharding.spec import Question, ShardingSpec
from planner.sharding.strategies import Strategy

_WRITTEN_OUT = re.compile(r"layer(?P<layer>\d+)\.(?P<name>.+)", re.DOTALL)


@dataclass(frozen=True)
class Names:
    """What names of operators stand for, in a graph as it was posted (`is_exact`: whose layers are
    written out as ``layer<k>.<name>``)."""

    graph: Graph
    is_exact: bool

    @cached_property
    def _in_layer(self) -> frozenset[str]:
        if not self.is_exact:
            return frozenset()
        return frozenset(self.graph.operators[v].name for v in layer_operators(self.graph))

    def posted(self, name: str) -> str:
        """The posted operator that one is, or is a layer's copy of; a name of neither stays."""
        match = _WRITTEN_OUT.fullmatch(name)
        if match is None or match["name"] not in self._in_layer:
            return name
        return match["name"]

    def is_known(self, name: str) -> bool:
        """Whether there is such an operator, in the graph or in one of its layers."""
        posted = self.posted(name)
        if posted == name or self.graph.repeat is None:
            return name in self.graph.number_of
        match = _WRITTEN_OUT.fullmatch(name)
        assert match is not None
        number = match["layer"]
        return number == str(int(number)) and int(number) < self.graph.repeat.count

    def clashing(self) -> str | None:
        """The name of an operator or tensor around the layers that looks like one of a layer."""
        if not self._in_layer:
            return None
        within = {t for v in layer_operators(self.graph) for t in self.graph.operators[v].outputs}
        around = [
            *(name for name in self.graph.number_of if name not in self._in_layer),
            *(name for name in self.graph.tensors if name not in within),
        ]
        return next((name for name in around if _WRITTEN_OUT.fullmatch(name)), None)


class Restrictions:
    """The pins and prohibitions of a spec."""

    def __init__(self, spec: ShardingSpec) -> None:
        self._names = Names(spec.graph, spec.options.exact)
        self._pinned = spec.pinned
        self._forbidden = spec.forbidden
        self.is_any = bool(spec.pinned or spec.forbidden)

    def allows(self, operator: Operator, strategy: Strategy) -> bool:
        """Whether an operator may have a strategy. A pin of one layer's operator comes before a
        pin of all layers'."""
        posted = self._names.posted(operator.name)
        wanted = self._pinned.get(operator.name, self._pinned.get(posted))
        if wanted is not None and strategy.name != wanted:
            return False
        forbidden = self._forbidden.get(operator.name, ()), self._forbidden.get(posted, ())
        return not any(strategy.name in names for names in forbidden)

    def with_answer(self, question: Question) -> Allowed:
        """The same, but that the operator in question has the strategy in question, forbidden or
        not."""

        def allows(operator: Operator, strategy: Strategy) -> bool:
            if self.asks_for(question, operator):
                return strategy.name == question.strategy
            return self.allows(operator, strategy)

        return allows

    def asks_for(self, question: Question, operator: Operator) -> bool:
        """Whether a question is about an operator."""
        return question.operator in (operator.name, self._names.posted(operator.name))
