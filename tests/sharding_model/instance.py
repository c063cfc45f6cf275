"""The whole instance: layers written out, tensors followed from operator to operator."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from planner.sharding.graph import DTYPE_BYTES, Graph
from tests.sharding_model.costs import Conditions, OperatorModel
from tests.sharding_model.devices import Lie, received
from tests.sharding_model.kinds import ways_of

Table = list[list[int]]
Costs = tuple[str, int, int, int]
"""Name, redundant bytes, bytes sent, bytes held."""


@dataclass(frozen=True)
class Node:
    """An operator in one of the layers, or outside of them."""

    operator: int
    layer: int | None


@dataclass(frozen=True)
class Read:
    """A tensor at one place of a reader, as the output of a producer."""

    reader: Node
    place: int
    producer: Node
    output: int


class SecondModel:
    """`operators`: per operator the costs of its strategies, all layers together. `edges`: tables
    by the two ends' numbers."""

    def __init__(self, graph: Graph, conditions: Conditions) -> None:
        self._graph = graph
        self._conditions = conditions
        self._nodes, self._reads = _written_out(graph)
        kept = self._kept_tensors()
        self._models = [OperatorModel(own, graph, kept, conditions) for own in graph.operators]
        once = [[model.costs(choice) for choice in model.choices] for model in self._models]
        own: list[list[Costs]] = [[(row[0], 0, 0, 0) for row in rows] for rows in once]
        for node in self._nodes:
            own[node.operator] = [
                (name, *(a + b for a, b in zip(sums, more, strict=True)))  # type: ignore[misc]
                for (name, *sums), (_, *more) in zip(
                    own[node.operator], once[node.operator], strict=True
                )
            ]
        self.operators = own
        self.edges: dict[tuple[int, int], Table] = {}
        known: dict[tuple[int, int, int, int], Table] = {}
        for read in self._reads:
            key = read.producer.operator, read.output, read.reader.operator, read.place
            if key not in known:
                known[key] = self._table(read)
            self._add(read.producer, read.reader, known[key])
        for holder, reader, table in self._tied():
            self._add(holder, reader, table)

    def _add(self, source: Node, target: Node, table: Table) -> None:
        """Within one operator both ends have the same strategy."""
        ends = source.operator, target.operator
        if source.operator == target.operator:
            self.operators[source.operator] = [
                (name, redundant, sent + table[number][number], memory)
                for number, (name, redundant, sent, memory) in enumerate(
                    self.operators[source.operator]
                )
            ]
        elif ends in self.edges:
            self.edges[ends] = [
                [a + b for a, b in zip(row, more, strict=True)]
                for row, more in zip(self.edges[ends], table, strict=True)
            ]
        else:
            self.edges[ends] = table

    def _kept_tensors(self) -> frozenset[str]:
        """Names of what anybody keeps. All layers are alike: what one of them keeps, all do."""
        operators, tensors = self._graph.operators, set()
        sequence_parallel = self._conditions.sequence_parallel
        ways = [ways_of(own, self._graph, sequence_parallel)[0] for own in operators]
        shows: dict[str, set[str]] = {}
        for node in self._nodes:
            way = ways[node.operator]
            outputs = operators[node.operator].outputs
            tensors |= {t for t, use in zip(outputs, way.outputs, strict=True) if use.kept}
        for read in self._reads:
            way = ways[read.reader.operator]
            name = operators[read.producer.operator].outputs[read.output]
            if way.inputs[read.place].kept:
                tensors.add(name)
            if way.is_view:
                for view in operators[read.reader.operator].outputs:
                    shows.setdefault(view, set()).add(name)
        while more := {name for view in tensors for name in shows.get(view, ())} - tensors:
            tensors |= more
        return frozenset(tensors)

    def _table(self, read: Read) -> Table:
        """What a tensor's way costs, forward and, for its gradient, back."""
        producer, reader = (self._models[node.operator] for node in (read.producer, read.reader))
        tensor = self._graph.tensors[producer.operator.outputs[read.output]]
        made = [c.lie(tensor.shape, c.way.outputs[read.output]) for c in producer.choices]
        wanted = []
        for choice in reader.choices:
            where = choice.lie(tensor.shape, choice.way.inputs[read.place])
            before = [
                choice.lie(tensor.shape, choice.way.inputs[place])
                for place in range(read.place)
                if reader.operator.inputs[place] == reader.operator.inputs[read.place]
            ]
            # What lies right for one place of the reader does so for another one.
            wanted.append(None if where in before else where)
        item = DTYPE_BYTES[tensor.dtype]
        back = item if tensor.has_gradient else 0
        times = self._conditions.micro_batches
        found: dict[tuple[int, int], int] = {}

        def cost(have: Lie, want: Lie | None) -> int:
            if want is None:
                return 0
            key = id(have), id(want)
            if key not in found:
                found[key] = times * self._there_and_back(have, want, item, back)
            return found[key]

        return [[cost(have, want) for want in wanted] for have in made]

    def _there_and_back(self, have: Lie, want: Lie, there: int, back: int) -> int:
        """Bytes of an element there and back."""
        sent = self._one_way(have, want, there)
        return sent + self._one_way(want, have, back) if back else sent

    def _one_way(self, have: Lie, want: Lie, item: int) -> int:
        """Bytes of an element one way, whole ones in time as well."""
        per_node, slowdown = self._conditions.devices, 1.0
        if self._conditions.communication == "time":
            per_node, slowdown = self._conditions.per_node, self._conditions.slowdown
        near, far = received(have, want, per_node, slowdown)
        return math.ceil(near * item + slowdown * (far * item))

    def _tied(self) -> Iterator[tuple[Node, Node, Table]]:
        """Borrowed parameters: the weight there, the gradient back, once per step. Where the two
        lie differently, the borrower first adds up its gradient by itself."""
        weight, gradient, _ = self._conditions.state_bytes
        graph = self._graph
        for node in self._nodes:
            reader = self._models[node.operator]
            for place, parameter in enumerate(reader.operator.parameters):
                if parameter.tied_to is None:
                    continue
                source, position = _holder(graph, parameter.tied_to, parameter.shape)
                producer = self._models[source]
                shape = producer.operator.parameters[position].shape
                axes = _axes(shape, parameter.shape)
                table = []
                for choice in producer.choices:
                    have = choice.lie(shape, choice.way.parameters[position])
                    row = []
                    for other in reader.choices:
                        use = other.way.parameters[place]
                        turned = other.lie(parameter.shape, use)
                        want = tuple(tuple(block[axis] for axis in axes) for block in turned)
                        sent = self._there_and_back(have, want, weight, gradient)
                        if have != want:
                            sent += reader.summing(other, parameter, use)
                        row.append(sent)
                    table.append(row)
                yield _same_layer(self._nodes, source, node), node, table


def _holder(graph: Graph, name: str, shape: tuple[int, ...]) -> tuple[int, int]:
    """The operator of a name, and its first own parameter of these sizes in any order."""
    number = next(n for n, operator in enumerate(graph.operators) if operator.name == name)
    for position, own in enumerate(graph.operators[number].parameters):
        if own.tied_to is None and sorted(own.shape) == sorted(shape):
            return number, position
    raise AssertionError(name)


def _axes(held: tuple[int, ...], borrowed: tuple[int, ...]) -> list[int]:
    """For each dimension of the held parameter that of the borrowed one."""
    if held == borrowed:
        return list(range(len(held)))
    left = list(range(len(borrowed)))
    found = []
    for size in held:
        axis = next(axis for axis in left if borrowed[axis] == size)
        left.remove(axis)
        found.append(axis)
    return found


def _same_layer(nodes: list[Node], operator: int, near: Node) -> Node:
    """The node of an operator in another one's layer, else outside of layers or in the last."""
    found = [node for node in nodes if node.operator == operator]
    return next((node for node in found if node.layer == near.layer), found[-1])


def _written_out(graph: Graph) -> tuple[list[Node], list[Read]]:
    """All nodes, and which tensor of which node each of them reads where."""
    operators, repeat = graph.operators, graph.repeat
    layer = _layer(graph)
    count = repeat.count if repeat else 1
    nodes = []
    for number in range(len(operators)):
        layers = range(count) if number in layer else [None]
        nodes += [Node(number, each) for each in layers]
    reads = []
    for node in nodes:
        for place, tensor in enumerate(operators[node.operator].inputs):
            source, at = tensor, node.layer
            if repeat and node.layer and tensor == repeat.input:
                source, at = repeat.output, node.layer - 1
            producer = next(n for n, own in enumerate(operators) if source in own.outputs)
            if producer not in layer:
                at = None
            elif at is None:
                at = count - 1
            output = operators[producer].outputs.index(source)
            reads.append(Read(node, place, Node(producer, at), output))
    return nodes, reads


def _layer(graph: Graph) -> set[int]:
    """The operators between the layer's input and output, and those that read anything made in the
    layer but its output."""
    if graph.repeat is None:
        return set()
    operators = graph.operators

    def behind(tensors: set[str]) -> set[int]:
        found: set[int] = set()
        while more := {
            number
            for number, own in enumerate(operators)
            if number not in found
            and any(t in tensors or any(t in operators[n].outputs for n in found)
                    for t in own.inputs)
        }:  # fmt: skip
            found |= more
        return found

    after = behind({graph.repeat.input})
    between = {
        number
        for number in after
        if any(
            graph.repeat.output in operators[n].outputs
            for n in (number, *behind(set(operators[number].outputs)))
        )
    }
    layer = set(between)
    while more := {
        number
        for number in after - layer
        for made in layer
        if (set(operators[made].outputs) - {graph.repeat.output}) & set(operators[number].inputs)
    }:
        layer |= more
    return layer
