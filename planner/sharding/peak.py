"""Predicted peak: the most bytes that one device holds at any moment of a step.

One forward and backward are played through, operator by operator, with the pieces of memory that
eager PyTorch holds: what an operator reads is there until its last reader has run, what it keeps
until its backward has run, gradients until they have been taken. States are held all the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

from planner.cost.memory import ceil_div
from planner.sharding.build import Formulation
from planner.sharding.changes import change_of, gathers_rows
from planner.sharding.costs import OperatorCosts
from planner.sharding.folding import layer_operators, reached_from
from planner.sharding.graph import Operator
from planner.sharding.layout import Layout
from planner.sharding.pieces import Arrival, Key, Memory, Piece, Record
from planner.sharding.strategies import Strategy

Each = TypeVar("Each")

SHARES_GRADIENT = ("add",)
"""Kinds that hand on the gradient that they are given: their inputs share it."""
MOST_LAYERS, MEASURED_LAYER = 5, 2
"""That are played of identical ones. The one in the middle has two on either side, as those in
place of which it counts have: the first and the last differ, since other operators are beside them.
"""


def predicted_peak_bytes(
    formulation: Formulation, choice: Sequence[int], *, resident_gradients: bool = True
) -> int:
    """The peak of a plan on one device.

    With resident gradients (buffers made once, as Megatron-LM and DDP do) they count from the
    start; otherwise they come up in the backward, as in plain PyTorch after
    `zero_grad(set_to_none=True)`.
    """
    return _Step(formulation, choice, resident_gradients).run()


class _Step:
    """One forward and backward."""

    def __init__(
        self, formulation: Formulation, choice: Sequence[int], resident_gradients: bool
    ) -> None:
        self._formulation = formulation
        self._graph = formulation.graph
        self._strategies = [
            own[number] for own, number in zip(formulation.strategies, choice, strict=True)
        ]
        self._costs = [
            OperatorCosts(operator, self._graph.tensors, formulation.saved, formulation.settings)
            for operator in self._graph.operators
        ]
        self._resident = resident_gradients
        self._layer = layer_operators(self._graph)
        self._behind = (
            reached_from(self._graph, self._graph.repeat.output) - self._layer
            if self._graph.repeat
            else frozenset()
        )
        count = self._graph.repeat.count if self._graph.repeat else 1
        self._layers = min(count, MOST_LAYERS)
        self._left_out = count - self._layers
        self._memory = Memory(self._states_bytes())
        self._tensors: dict[Key, Piece] = {}
        self._gradients: dict[Key, Piece] = {}
        self._records: list[Record] = []
        self._readers_left: dict[Key, int] = {}

    def run(self) -> int:
        """The most bytes at any moment."""
        order = list(self._order())
        for number, layer in order:
            for key in self._inputs(number, layer):
                self._readers_left[key] = self._readers_left.get(key, 0) + 1
        made = [(t, layer) for v, layer in order for t in self._graph.operators[v].outputs]
        ends = [key for key in made if not self._readers_left.get(key)]
        for key in ends:
            # Whoever reads the end of the graph holds it, and gives its gradient in a buffer.
            size = self._bytes(key[0], self._output_layout(key[0]))
            self._gradients[key] = self._memory.hold(self._memory.new(size))
        before = self._memory.now
        self._play(order, lambda each: each[1], lambda each: self._forward(*each))
        for key in ends:
            self._memory.drop(self._tensors.pop(key))
        kept = self._memory.now - before
        self._play(self._records[::-1], lambda record: record.layer, self._backward)
        others = self._formulation.settings.micro_batches_in_flight - 1
        return self._memory.most + others * kept

    def _play(
        self, order: Sequence[Each], layer_of: Callable[[Each], int], play: Callable[[Each], None]
    ) -> None:
        """What one layer in the middle adds to what is held, or takes away, those left out do too.

        From layer to layer it rises or falls alike, so that none of those left out ever holds more
        than both of the layers that are played around them.
        """
        for layer, group in groupby(order, layer_of):
            before = self._memory.now
            for each in group:
                play(each)
            if layer == MEASURED_LAYER:
                self._memory.now += self._left_out * (self._memory.now - before)

    def _states_bytes(self) -> int:
        total = 0
        for number, (costs, strategy) in enumerate(zip(self._costs, self._strategies, strict=True)):
            held = [holding.resident_bytes for holding in costs.states(strategy)]
            if not self._resident:
                del held[1::3]
            total += self._formulation.times[number] * sum(held)
        return total

    def _order(self) -> Iterator[tuple[int, int]]:
        """The operators with their layers: what is before the layers, they, and the rest."""
        count = len(self._graph.operators)
        repeat = self._graph.repeat
        if repeat is None:
            yield from ((number, -1) for number in range(count))
            return
        around = self._layer | self._behind
        yield from ((v, -1) for v in range(count) if v not in around)
        yield from ((v, number) for number in range(self._layers) for v in sorted(self._layer))
        yield from ((v, self._layers) for v in sorted(self._behind))

    def _inputs(self, number: int, layer: int) -> list[Key]:
        return [
            self._key(tensor, layer)
            for tensor in dict.fromkeys(self._graph.operators[number].inputs)
        ]

    def _key(self, tensor: str, layer: int) -> Key:
        """Who makes what an operator of a layer reads."""
        repeat = self._graph.repeat
        if repeat is None:
            return tensor, -1
        if tensor == repeat.input and 0 < layer < self._layers:
            return repeat.output, layer - 1
        producer = self._graph.producer_of[tensor]
        if producer in self._layer:
            return tensor, min(layer, self._layers - 1)
        return tensor, self._layers if producer in self._behind else -1

    def _output_layout(self, tensor: str) -> Layout:
        producer = self._graph.producer_of[tensor]
        strategy = self._strategies[producer]
        place = self._graph.operators[producer].outputs.index(tensor)
        return strategy.layout(strategy.rule.outputs[place].split)

    def _bytes(self, tensor: str, layout: Layout) -> int:
        return ceil_div(self._graph.tensors[tensor].size_bytes, layout.blocks)

    def _forward(self, number: int, layer: int) -> None:
        operator, strategy = self._graph.operators[number], self._strategies[number]
        keys = self._inputs(number, layer)
        record = Record(number, layer, keys, [], [])
        arrived = {
            key: self._arrive(record, operator, strategy, key, tensor)
            for key, tensor in zip(keys, dict.fromkeys(operator.inputs), strict=True)
        }
        self._drop_read(keys)
        gathered = self._memory.new(self._gathered_bytes(number))
        for tensor, rule in zip(operator.outputs, strategy.rule.outputs, strict=True):
            key = tensor, layer
            size = self._bytes(tensor, strategy.layout(rule.split))
            if rule.is_view:
                piece = self._memory.hold(arrived[keys[0]])
            else:
                piece = self._memory.new(size)
                if any(p and n > 1 for p, n in zip(rule.partial, strategy.degrees, strict=True)):
                    self._memory.for_a_moment(size)
            self._tensors[key] = piece
            record.outputs.append(key)
            if rule.saved:
                record.kept.append(self._memory.hold(piece))
        for key, tensor in zip(keys, dict.fromkeys(operator.inputs), strict=True):
            if strategy.rule.inputs[operator.inputs.index(tensor)].saved:
                record.kept.append(self._memory.hold(arrived[key]))
            self._memory.drop(arrived[key])
        self._memory.drop(gathered)
        extra = self._costs[number].extra_bytes(strategy)
        if extra:
            record.kept.append(self._memory.new(extra))
        self._records.append(record)

    def _arrive(
        self, record: Record, operator: Operator, strategy: Strategy, key: Key, tensor: str
    ) -> Piece:
        """The input in the layout that the operator wants: the same piece, or a new one."""
        had = self._output_layout(key[0])
        place = operator.inputs.index(tensor)
        wanted = strategy.layout(strategy.rule.inputs[place].split)
        if change_of(had, wanted) == "same":
            return self._memory.hold(self._tensors[key])
        sizes = self._bytes(tensor, had), self._bytes(tensor, wanted)
        record.arrivals.append(Arrival(key, had, wanted, *sizes))
        return self._move(had, wanted, *sizes)

    def _move(self, had: Layout, wanted: Layout, had_bytes: int, wanted_bytes: int) -> Piece:
        """A new piece; parts that do not come one after another are put in order in a copy."""
        change = change_of(had, wanted)
        if change == "all_to_all":
            self._memory.for_a_moment(had_bytes + wanted_bytes)
        piece = self._memory.new(wanted_bytes)
        if change == "all_to_all" or (change == "all_gather" and not gathers_rows(had, wanted)):
            self._memory.for_a_moment(wanted_bytes)
        return piece

    def _drop_read(self, keys: Sequence[Key]) -> None:
        for key in keys:
            self._readers_left[key] -= 1
            if not self._readers_left[key]:
                self._memory.drop(self._tensors.pop(key))

    def _backward(self, record: Record) -> None:
        operator, strategy = self._graph.operators[record.number], self._strategies[record.number]
        given = [self._gradients.pop(key) for key in record.outputs if key in self._gradients]
        arrivals = {arrival.key: arrival for arrival in record.arrivals}
        gathered = self._memory.new(self._gathered_bytes(record.number))
        made = self._input_gradients(record, operator, strategy, given)
        weights = self._weight_gradients(record.number, strategy)
        for piece in (*given, *record.kept, *weights, gathered):
            self._memory.drop(piece)
        for key, (piece, is_partial) in reversed(made.items()):
            if is_partial:
                self._memory.for_a_moment(piece.size)
            arrival = arrivals.get(key)
            if arrival is not None:
                moved = self._move(
                    arrival.wanted, arrival.had, arrival.wanted_bytes, arrival.had_bytes
                )
                self._memory.drop(piece)
                piece = moved
            self._give(key, piece)

    def _input_gradients(
        self, record: Record, operator: Operator, strategy: Strategy, given: Sequence[Piece]
    ) -> dict[Key, tuple[Piece, bool]]:
        """New pieces, and whether they are partial sums; none where no gradient arrived."""
        made: dict[Key, tuple[Piece, bool]] = {}
        if not given:
            return made
        is_shared = operator.kind in SHARES_GRADIENT or all(
            output.is_view for output in strategy.rule.outputs
        )
        for key, tensor in zip(record.inputs, dict.fromkeys(operator.inputs), strict=True):
            if not self._graph.tensors[tensor].has_gradient:
                continue
            rule = strategy.rule.inputs[operator.inputs.index(tensor)]
            size = self._bytes(tensor, strategy.layout(rule.split))
            shares = is_shared and size == given[0].size
            piece = self._memory.hold(given[0]) if shares else self._memory.new(size)
            partial = any(
                p and n > 1 for p, n in zip(rule.partial_gradient, strategy.degrees, strict=True)
            )
            made[key] = piece, partial
        return made

    def _gathered_bytes(self, number: int) -> int:
        """The operator's parameters whole, where ZeRO stage 3 holds a part of them only."""
        settings, strategy = self._formulation.settings, self._strategies[number]
        if settings.zero_stage < 3 or strategy.degrees.data == 1:
            return 0
        return settings.states.parameter * sum(self._parameter_elements(number, strategy))

    def _parameter_elements(self, number: int, strategy: Strategy) -> list[int]:
        return [
            ceil_div(parameter.elements, strategy.layout(rule.split).blocks)
            for parameter, rule in zip(
                self._graph.operators[number].parameters, strategy.rule.parameters, strict=True
            )
        ]

    def _weight_gradients(self, number: int, strategy: Strategy) -> list[Piece]:
        """Gradients of parameters; where they are not resident they stay, so nobody drops them."""
        size = self._formulation.settings.states.parameter
        pieces = [
            self._memory.new(elements * size)
            for elements in self._parameter_elements(number, strategy)
        ]
        return pieces if self._resident else []

    def _give(self, key: Key, piece: Piece) -> None:
        """A second gradient of a tensor is added to the first in memory of its own."""
        first = self._gradients.pop(key, None)
        if first is not None:
            total = self._memory.new(piece.size)
            self._memory.drop(first)
            self._memory.drop(piece)
            piece = total
        self._gradients[key] = piece
