"""How many devices it takes to hold a graph."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from planner.sharding.build import Formulation, formulate
from planner.sharding.costs import OperatorCosts
from planner.sharding.graph import Graph, Operator
from planner.sharding.known_peak import lowest_known_peak_bytes
from planner.sharding.least_memory import activation_bytes, states_bytes
from planner.sharding.operators.registry import rules_of
from planner.sharding.operators.rule import Rule, RuleOptions
from planner.sharding.strategies import strategies_of

LARGEST_SEARCHED = 1024
SEARCH_S = 3.0


def smallest_devices(
    formulation: Formulation, limit_bytes: int, rule_options: RuleOptions
) -> tuple[int | None, int]:
    """The smallest larger number of devices on which a plan is known to fit, peak included, and up
    to which number was searched: at most `LARGEST_SEARCHED`, and for `SEARCH_S`."""
    search = _Search(formulation, rule_options)
    began = time.monotonic()
    # No device holds less than an even share of what there is in all.
    whole_bytes = search.least_on(1)
    first = max(formulation.settings.devices.count + 1, -(-whole_bytes // limit_bytes))
    for count in range(first, LARGEST_SEARCHED + 1):
        if time.monotonic() > began + SEARCH_S:
            return None, count - 1
        if search.least_on(count) > limit_bytes:
            continue
        if search.lowest_peak_on(count, limit_bytes) <= limit_bytes:
            return count, count
    return None, LARGEST_SEARCHED


@dataclass(frozen=True, slots=True)
class _Alike:
    """Operators that need the same memory whatever the devices, such as one in each layer."""

    operator: Operator
    times: int
    rules: tuple[Rule, ...]

    def may_use(self, devices: int) -> bool:
        """False where no strategy can use just so many devices; a quick look."""
        return any(
            None in rule.units or math.prod(n for n in rule.units if n) % devices == 0
            for rule in self.rules
        )


class _Search:
    """Looks at each kind of operator once per number of devices that it can use."""

    def __init__(self, formulation: Formulation, rule_options: RuleOptions) -> None:
        self._formulation = formulation
        self._rule_options = rule_options
        self._alike = _alike(formulation, rule_options)
        self._known: dict[tuple[int, int], int | None] = {}

    def least_on(self, devices: int) -> int:
        """The least that any plan keeps on each of so many devices."""
        usable = [count for count in range(devices, 0, -1) if devices % count == 0]
        return sum(
            own.times * self._least_of(place, usable) for place, own in enumerate(self._alike)
        )

    def lowest_peak_on(self, devices: int, limit_bytes: int) -> int:
        """The lowest peak known of any plan on so many devices."""
        settings = self._formulation.settings
        larger = replace(settings, devices=replace(settings.devices, count=devices))
        graph = self._formulation.graph
        bare = formulate(graph, larger, self._rule_options, with_passages=False)
        return lowest_known_peak_bytes(bare, limit_bytes)

    def _least_of(self, place: int, usable: Sequence[int]) -> int:
        """On as many of the devices as an operator can use; the rest repeats it."""
        for devices in usable:
            key = place, devices
            if key not in self._known:
                self._known[key] = self._least_on_all(self._alike[place], devices)
            size = self._known[key]
            if size is not None:
                return size
        raise AssertionError("one device alone needs no splitting")

    def _least_on_all(self, own: _Alike, devices: int) -> int | None:
        if not own.may_use(devices):
            return None
        strategies = strategies_of(own.rules, devices)
        if strategies[0].spare > 1:
            return None
        formulation = self._formulation
        settings = replace(
            formulation.settings, devices=replace(formulation.settings.devices, count=devices)
        )
        model = OperatorCosts(own.operator, formulation.graph.tensors, formulation.saved, settings)
        return min(
            states_bytes(model, strategy)
            + settings.micro_batches_in_flight * activation_bytes(model, strategy)
            for strategy in strategies
        )


def _alike(formulation: Formulation, rule_options: RuleOptions) -> list[_Alike]:
    graph = formulation.graph
    counts: Counter[Hashable] = Counter()
    first: dict[Hashable, Operator] = {}
    for operator, times in zip(graph.operators, formulation.times, strict=True):
        key = _key(graph, formulation.saved, operator)
        first.setdefault(key, operator)
        counts[key] += times
    return [
        _Alike(operator, counts[key], rules_of(operator, graph, rule_options))
        for key, operator in first.items()
    ]


def _key(graph: Graph, saved: frozenset[str], operator: Operator) -> Hashable:
    """All that an operator's memory depends on."""
    inputs = tuple((tensor.shape, tensor.dtype) for tensor in graph.inputs_of(operator))
    outputs = tuple(
        (tensor.shape, tensor.dtype, tensor.name in saved) for tensor in graph.outputs_of(operator)
    )
    parameters = tuple((own.shape, own.tied_to is None) for own in operator.parameters)
    attributes = tuple(sorted(operator.attributes.items()))
    return operator.kind, inputs, outputs, parameters, attributes
