"""Tensors and tied parameters on their way between operators, and what that costs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.progress import StopCheck, watched
from planner.sharding.costs import CostSettings, OperatorCosts
from planner.sharding.graph import Graph
from planner.sharding.layout import Layout
from planner.sharding.moves import moves
from planner.sharding.operators.rule import Split
from planner.sharding.strategies import Strategy

Table = NDArray[np.int64]

OPERATORS_BETWEEN_CHECKS = 50
"""A tenth of a second where 64 devices share the work."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A tensor (or a tied parameter, `tensor` is then its name) on its way between operators.

    `table[i][j]`: bytes that a device receives in one optimizer step from strategy i of the source
    to strategy j of the target, forward and backward. `times` says how often the passage occurs
    where layers are folded. A layer that reads its own output has source and target the same.
    """

    tensor: str
    source: int
    target: int
    table: Table
    times: int


class Passages:
    """Makes the passages of a graph; those that are alike, as in each of many layers, share what
    is worked out once."""

    def __init__(
        self,
        graph: Graph,
        settings: CostSettings,
        strategies: Sequence[Sequence[Strategy]],
        folded: frozenset[int],
        models: Sequence[OperatorCosts],
        should_stop: StopCheck,
    ) -> None:
        self._graph = graph
        self._settings = settings
        self._strategies = strategies
        self._folded = folded
        self._models = models
        self._should_stop = should_stop
        self._tables: dict[Hashable, Table] = {}

    def all(self) -> Iterator[Passage]:
        """Every tensor to each of its readers, and every tied parameter to who borrows it.

        Raises `Interrupted` if told to stop.
        """
        repeat = self._graph.repeat
        operators = watched(self._graph.operators, self._should_stop, OPERATORS_BETWEEN_CHECKS)
        for number, operator in enumerate(operators):
            layers = repeat.count if repeat and number in self._folded else 1
            for place, tensor in enumerate(operator.inputs):
                if repeat is None or tensor != repeat.input or layers == 1:
                    yield from self._tensor(tensor, number, place, layers)
                    continue
                yield from self._tensor(tensor, number, place, 1)
                yield from self._tensor(repeat.output, number, place, layers - 1)
            for place, parameter in enumerate(operator.parameters):
                if parameter.tied_to is not None:
                    holder = self._graph.number_of[parameter.tied_to]
                    table = self._tied(holder, number, place)
                    yield Passage(parameter.name, holder, number, table, layers)

    def _tensor(self, name: str, target: int, place: int, times: int) -> Iterator[Passage]:
        """The passage to one place of a reader; what lies right for one place that reads the same
        tensor does so for another one."""
        tensor, source = self._graph.tensors[name], self._graph.producer_of[name]
        out = self._graph.operators[source].outputs.index(name)
        made = [s.layout(s.rule.outputs[out].split) for s in self._strategies[source]]
        wanted = self._wanted(target, place)
        back_bytes = tensor.size_bytes if tensor.has_gradient else 0
        table = self._table(made, wanted, tensor.size_bytes, back_bytes)
        inputs = self._graph.operators[target].inputs
        again = [at for at in range(place) if inputs[at] == inputs[place]]
        for at in again:
            pairs = zip(self._wanted(target, at), wanted, strict=True)
            lies_elsewhere = [a.effective != b.effective for a, b in pairs]
            table = table * np.array(lies_elsewhere)
        if table.any() or not again:
            yield Passage(name, source, target, self._settings.micro_batches * table, times)

    def _wanted(self, target: int, place: int) -> list[Layout]:
        return [s.layout(s.rule.inputs[place].split) for s in self._strategies[target]]

    def _tied(self, holder: int, number: int, place: int) -> Table:
        """What a borrowed parameter costs in one step, its gradient on the way back.

        Where it lies otherwise than its holder's, the borrower adds up its gradient by itself.
        """
        parameter = self._graph.operators[number].parameters[place]
        position, held = next(
            (position, own)
            for position, own in enumerate(self._graph.operators[holder].parameters)
            if own.tied_to is None and sorted(own.shape) == sorted(parameter.shape)
        )
        made = [s.layout(s.rule.parameters[position].split) for s in self._strategies[holder]]
        wanted = [
            s.layout(_as_held(s.rule.parameters[place].split, parameter.shape, held.shape))
            for s in self._strategies[number]
        ]
        states = self._settings.states
        weight, gradient = (
            parameter.elements * size for size in (states.parameter, states.gradient)
        )
        table = self._table(made, wanted, weight, gradient)
        model = self._models[number]
        alone = [model.borrowed_gradient(s, place) for s in self._strategies[number]]
        return table + np.where(table > 0, np.array(alone), 0)

    def _table(
        self,
        made: Sequence[Layout],
        wanted: Sequence[Layout],
        size_bytes: int,
        back_bytes: int,
    ) -> Table:
        """Bytes from each layout to each other, and back where there is a gradient."""
        key = tuple(made), tuple(wanted), size_bytes, back_bytes
        if key not in self._tables:
            self._tables[key] = self._new_table(made, wanted, size_bytes, back_bytes)
        return self._tables[key]

    def _new_table(
        self,
        made: Sequence[Layout],
        wanted: Sequence[Layout],
        size_bytes: int,
        back_bytes: int,
    ) -> Table:
        sources, targets = tuple(dict.fromkeys(made)), tuple(dict.fromkeys(wanted))
        devices = self._settings.devices
        per_node, factor = devices.count, 1.0
        if self._settings.communication == "time" and devices.devices_per_node < per_node:
            per_node, factor = devices.devices_per_node, devices.network_factor
        there, back = moves(sources, targets, per_node, factor)
        table = there.bytes_of(size_bytes, factor)
        if back_bytes:
            table = table + back.bytes_of(back_bytes, factor)
        rows = {layout: number for number, layout in enumerate(sources)}
        columns = {layout: number for number, layout in enumerate(targets)}
        picked: Table = table[
            np.ix_([rows[layout] for layout in made], [columns[layout] for layout in wanted])
        ]
        return picked


def _as_held(split: Split, shape: tuple[int, ...], held: tuple[int, ...]) -> Split:
    """The split of a parameter, by the dimensions of the one that holds it, which may come in
    another order."""
    if shape == held:
        return split
    left = list(enumerate(held))
    places = []
    for size in shape:
        place = next(pair for pair in left if pair[1] == size)
        left.remove(place)
        places.append(place[0])
    return Split(*(None if dimension is None else places[dimension] for dimension in split))
