"""Identical layers behind one another: kept once, with how often they occur."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

from client.operator_graph.records import GraphRecord, OperatorRecord, RepeatRecord


def fold_layers(graph: GraphRecord) -> None:
    """Keep one of the longest run of identical layers, with a star for their number in its names.

    Layers are the children 0, 1, 2, … of one module. They are alike where operators, shapes,
    attributes and weights are, each reads the one before it through a single tensor, and whoever
    comes behind reads the last one's output only.
    """
    for prefix, layers in _candidates(graph):
        run = _longest_run(graph, layers)
        if run is not None:
            first, count, entry, exit_ = run
            _fold(graph, prefix, layers, first, count, entry, exit_)
            return


def _candidates(graph: GraphRecord) -> list[tuple[str, dict[int, list[OperatorRecord]]]]:
    """Modules with numbered children and the operators below each, the largest first."""
    found: dict[str, dict[int, list[OperatorRecord]]] = defaultdict(lambda: defaultdict(list))
    for operator in graph.operators:
        parts = operator.module.split(".")
        for place, part in enumerate(parts):
            if part.isdecimal():
                found[".".join(parts[:place])][int(part)].append(operator)
    sized = [(sum(map(len, layers.values())), prefix) for prefix, layers in found.items()]
    return [(p, dict(found[p])) for _, p in sorted(sized, key=lambda each: (-each[0], each[1]))]


def _longest_run(
    graph: GraphRecord, layers: dict[int, list[OperatorRecord]]
) -> tuple[int, int, str, str] | None:
    """Number of the first layer, how many, the tensor that enters it and the one that leaves."""
    best: tuple[int, int, str, str] | None = None
    first = min(layers)
    while first in layers:
        count, entry, exit_ = _run(graph, layers, first)
        if count > 1 and (best is None or count > best[1]):
            best = (first, count, entry, exit_)
        first += max(count, 1)
    return best


def _run(
    graph: GraphRecord, layers: dict[int, list[OperatorRecord]], first: int
) -> tuple[int, str, str]:
    """How many layers from `first` on are alike, and the tensors around the first one."""
    entry = exit_ = ""
    count = 1
    while first + count in layers:
        before, layer = layers[first + count - 1], layers[first + count]
        chain = _chained(layers[first], before, layer)
        if chain is None or (exit_ and chain != (entry, exit_)):
            break
        entry, exit_ = chain
        count += 1
    while count > 1 and not _is_closed(graph, layers, first, count, exit_):
        count -= 1
    return count, entry, exit_


def _chained(
    model: list[OperatorRecord], before: list[OperatorRecord], layer: list[OperatorRecord]
) -> tuple[str, str] | None:
    """The input and the output of the layer `model` where `layer`, which reads `before`, does the
    same as it; None where it does not."""
    if len(model) != len(layer) or len(model) != len(before):
        return None
    tensors: dict[str, str] = {}
    operators = {own.name: other.name for own, other in zip(layer, model, strict=True)}
    previous: dict[str, str] = {}
    for own, other, earlier in zip(layer, model, before, strict=True):
        if not _alike(own, other, operators):
            return None
        for a, b, c in zip(own.outputs, other.outputs, earlier.outputs, strict=True):
            tensors[a.name] = b.name
            previous[c.name] = b.name
    chain: set[tuple[str, str]] = set()
    for own, other in zip(layer, model, strict=True):
        for read, expected in zip(own.inputs, other.inputs, strict=True):
            if read in tensors:
                if tensors[read] != expected:
                    return None
            elif read in previous:
                chain.add((expected, previous[read]))
            elif read != expected:
                return None
    return chain.pop() if len(chain) == 1 else None


def _alike(own: OperatorRecord, other: OperatorRecord, operators: dict[str, str]) -> bool:
    shapes = [[(t.shape, t.dtype) for t in each.outputs] for each in (own, other)]
    weights = [
        [(p.name, p.shape, p.source.dtype, p.tied_to) for p in each.parameters]
        for each in (own, other)
    ]
    weights[0] = [
        (n, shape, dtype, operators.get(tied, tied) if tied else None)
        for n, shape, dtype, tied in weights[0]
    ]
    return (
        own.kind == other.kind
        and len(own.inputs) == len(other.inputs)
        and own.attributes == other.attributes
        and shapes[0] == shapes[1]
        and weights[0] == weights[1]
    )


def _is_closed(
    graph: GraphRecord,
    layers: dict[int, list[OperatorRecord]],
    first: int,
    count: int,
    exit_: str,
) -> bool:
    """Whether nobody outside reads more than the last layer's output."""
    place = next(
        (i, k)
        for i, own in enumerate(layers[first])
        for k, tensor in enumerate(own.outputs)
        if tensor.name == exit_
    )
    last = layers[first + count - 1][place[0]].outputs[place[1]].name
    inside = {id(own) for n in range(first, first + count) for own in layers[n]}
    made = {t.name for n in range(first, first + count) for own in layers[n] for t in own.outputs}
    outside = {
        name for own in graph.operators if id(own) not in inside for name in own.inputs
    } | graph.results
    tied = {p.tied_to for own in graph.operators if id(own) not in inside for p in own.parameters}
    names = {own.name for n in range(first, first + count) for own in layers[n]}
    return (made - {last}).isdisjoint(outside) and tied.isdisjoint(names)


def _fold(
    graph: GraphRecord,
    prefix: str,
    layers: dict[int, list[OperatorRecord]],
    first: int,
    count: int,
    entry: str,
    exit_: str,
) -> None:
    kept, last = layers[first], layers[first + count - 1]
    gone = {id(own) for number in range(first + 1, first + count) for own in layers[number]}
    start, stars = f"{prefix}.{first}".lstrip("."), f"{prefix}.*".lstrip(".")

    def starred(name: str) -> str:
        rest = name.removeprefix(start)
        return stars + rest if rest != name and not rest[:1].isalnum() else name

    renamed = {t.name: starred(t.name) for own in kept for t in own.outputs}
    for own, final in zip(kept, last, strict=True):
        for tensor, at_last in zip(own.outputs, final.outputs, strict=True):
            renamed[at_last.name] = starred(tensor.name)
        # The first layer pays for what all of them share, such as tables of positions.
        own.saved_bytes = final.saved_bytes
        own.name = starred(own.name)
        own.module = starred(own.module) if own.module != start else stars
        own.outputs = [replace(tensor, name=starred(tensor.name)) for tensor in own.outputs]
        own.parameters = [
            replace(p, tied_to=starred(p.tied_to)) if p.tied_to else p for p in own.parameters
        ]
    graph.operators = [own for own in graph.operators if id(own) not in gone]
    for own in graph.operators:
        own.inputs = [renamed.get(name, name) for name in own.inputs]
    graph.results = {renamed.get(name, name) for name in graph.results}
    numbered = re.compile(rf"(?<![\w.]){re.escape(stars[:-1])}\d+(?=[.:@ ])")
    graph.notes = list(dict.fromkeys(numbered.sub(stars, note) for note in graph.notes))
    graph.repeat = RepeatRecord(count, renamed.get(entry, entry), renamed[exit_], stars)
