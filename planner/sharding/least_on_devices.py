"""The least memory of all plans on any number of devices, each kind of operator looked at once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from planner.sharding.build import saved_tensors
from planner.sharding.costs import CostSettings, OperatorCosts
from planner.sharding.folding import layer_operators
from planner.sharding.graph import Graph, Operator
from planner.sharding.least_memory import activation_bytes, states_bytes
from planner.sharding.operators.registry import rules_of
from planner.sharding.operators.rule import Rule, RuleOptions
from planner.sharding.strategies import strategies_of


@dataclass(frozen=True, slots=True)
class LeastKept:
    """The least that any plan keeps on a device, and which part of the devices each kind of
    operator can use: with the same parts a device does and holds the same, however many devices
    repeat it."""

    size_bytes: int
    parts: Hashable


@dataclass(frozen=True, slots=True)
class _Alike:
    """Operators that need the same memory whatever the devices, such as one in each layer."""

    key: Hashable
    operator: Operator
    graph: Graph
    saved: frozenset[str]
    times: int
    rules: tuple[Rule, ...]

    def may_use(self, devices: int) -> bool:
        """False where no strategy can use just so many devices; a quick look."""
        return any(
            None in rule.units or math.prod(n for n in rule.units if n) % devices == 0
            for rule in self.rules
        )


class LeastOnDevices:
    """The sum of the operators' least, for graphs whose operators are mostly the same."""

    def __init__(self, settings: CostSettings, rule_options: RuleOptions) -> None:
        self._settings = settings
        self._rule_options = rule_options
        self._known: dict[tuple[Hashable, int], int | None] = {}
        self._graph: Graph | None = None
        self._alike: list[_Alike] = []

    def of(self, graph: Graph, devices: int) -> LeastKept:
        """The least that any plan of a graph keeps on each of so many devices."""
        if graph is not self._graph:
            self._graph, self._alike = graph, self._alike_in(graph)
        usable = [count for count in range(devices, 0, -1) if devices % count == 0]
        size_bytes, parts = 0, []
        for own in self._alike:
            part, least_bytes = self._least_of(own, usable)
            size_bytes += own.times * least_bytes
            parts.append((own.key, part))
        return LeastKept(size_bytes, tuple(parts))

    def _least_of(self, own: _Alike, usable: Sequence[int]) -> tuple[int, int]:
        """On as many of the devices as an operator can use; the rest repeats it."""
        for devices in usable:
            key = own.key, devices
            if key not in self._known:
                self._known[key] = self._least_on_all(own, devices)
            size = self._known[key]
            if size is not None:
                return devices, size
        raise AssertionError("one device alone needs no splitting")

    def _least_on_all(self, own: _Alike, devices: int) -> int | None:
        if not own.may_use(devices):
            return None
        strategies = strategies_of(own.rules, devices)
        if strategies[0].spare > 1:
            return None
        settings = on_devices(self._settings, devices)
        model = OperatorCosts(own.operator, own.graph.tensors, own.saved, settings)
        return min(
            states_bytes(model, strategy)
            + settings.micro_batches_in_flight * activation_bytes(model, strategy)
            for strategy in strategies
        )

    def _alike_in(self, graph: Graph) -> list[_Alike]:
        folded = layer_operators(graph)
        layers = graph.repeat.count if graph.repeat else 1
        rules = [rules_of(operator, graph, self._rule_options) for operator in graph.operators]
        saved = saved_tensors(graph, [own[0] for own in rules], folded)
        counts: Counter[Hashable] = Counter()
        first: dict[Hashable, int] = {}
        for number, operator in enumerate(graph.operators):
            key = _key(graph, saved, operator)
            first.setdefault(key, number)
            counts[key] += layers if number in folded else 1
        return [
            _Alike(key, graph.operators[number], graph, saved, counts[key], rules[number])
            for key, number in first.items()
        ]


def on_devices(settings: CostSettings, devices: int) -> CostSettings:
    """The same settings for another number of devices."""
    return replace(settings, devices=replace(settings.devices, count=devices))


def _key(graph: Graph, saved: frozenset[str], operator: Operator) -> Hashable:
    """All that an operator's memory depends on."""
    inputs = tuple((tensor.shape, tensor.dtype) for tensor in graph.inputs_of(operator))
    outputs = tuple(
        (tensor.shape, tensor.dtype, tensor.name in saved) for tensor in graph.outputs_of(operator)
    )
    parameters = tuple((own.shape, own.tied_to is None) for own in operator.parameters)
    attributes = tuple(sorted(operator.attributes.items()))
    return operator.kind, inputs, outputs, parameters, attributes
