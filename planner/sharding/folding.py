"""Identical layers: folded into one that counts several times, or written out one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.sharding.graph import Graph, Operator


def layer_operators(graph: Graph) -> frozenset[int]:
    """The operators of the repeated layer: those on the way from its input to its output, and
    those that read what is made on the way."""
    if graph.repeat is None:
        return frozenset()
    reached = reached_from(graph, graph.repeat.input)
    wanted = {graph.repeat.output}
    layer = set()
    for number in sorted(reached, reverse=True):
        operator = graph.operators[number]
        if any(tensor in wanted for tensor in operator.outputs):
            layer.add(number)
            wanted.update(operator.inputs)
    inner = {t for v in layer for t in graph.operators[v].outputs} - {graph.repeat.output}
    for number in sorted(reached - layer):
        operator = graph.operators[number]
        if any(tensor in inner for tensor in operator.inputs):
            layer.add(number)
            inner.update(operator.outputs)
    return frozenset(layer)


def reached_from(graph: Graph, tensor: str) -> set[int]:
    """The operators that need a tensor, directly or through others."""
    after = {tensor}
    reached = set()
    for number, operator in enumerate(graph.operators):
        if any(name in after for name in operator.inputs):
            reached.add(number)
            after.update(operator.outputs)
    return reached


def unfold(graph: Graph) -> Graph:
    """The graph with all its layers written out.

    Operators and tensors of layer k are named ``layer<k>.<name>``; those around the layers keep
    their names, and read from the last layer what is made in all of them.
    """
    repeat = graph.repeat
    if repeat is None:
        return graph
    layer = sorted(layer_operators(graph))
    inner = {tensor for v in layer for tensor in graph.operators[v].outputs}
    behind = reached_from(graph, repeat.output) - set(layer)
    last = f"layer{repeat.count - 1}"

    def in_layer(number: int) -> Callable[[str], str]:
        def name(tensor: str) -> str:
            if tensor == repeat.input and number > 0:
                return f"layer{number - 1}.{repeat.output}"
            return f"layer{number}.{tensor}" if tensor in inner else tensor

        return name

    def after_layers(tensor: str) -> str:
        return f"{last}.{tensor}" if tensor in inner else tensor

    held = {graph.operators[v].name for v in layer}
    operators: list[Operator] = []
    for v, operator in enumerate(graph.operators):
        if v not in behind and v not in layer:
            operators.append(_tied_to(last, operator, held))
    for number in range(repeat.count):
        operators += [_copy(graph.operators[v], number, in_layer(number), held) for v in layer]
    for v in sorted(behind):
        operator = _tied_to(last, graph.operators[v], held)
        operators.append(replace(operator, inputs=tuple(map(after_layers, operator.inputs))))
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name not in inner}
    for number in range(repeat.count):
        for name in sorted(inner):
            renamed = f"layer{number}.{name}"
            tensors[renamed] = replace(graph.tensors[name], name=renamed)
    return Graph(tuple(operators), tensors)


def _copy(operator: Operator, number: int, name: Callable[[str], str], layer: set[str]) -> Operator:
    prefix = f"layer{number}"
    return replace(
        _tied_to(prefix, operator, layer),
        name=f"{prefix}.{operator.name}",
        inputs=tuple(map(name, operator.inputs)),
        outputs=tuple(map(name, operator.outputs)),
    )


def _tied_to(prefix: str, operator: Operator, layer: set[str]) -> Operator:
    """The operator, with what it borrows from a layer's operators borrowed from one layer's."""
    return replace(
        operator,
        parameters=tuple(
            replace(p, tied_to=f"{prefix}.{p.tied_to}") if p.tied_to in layer else p
            for p in operator.parameters
        ),
    )
