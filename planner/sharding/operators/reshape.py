"""Reshape and transpose: the same elements, their dimensions split, merged or swapped.

Attributes: `dimension_map`, "0:0,1:2,2:1" for input dimension 1 becoming output dimension 2 and so
on (default: found from the shapes); `column_dimension`, which dimension of the output column
splits; `is_view`, no memory of its own (default: true for reshape, false for transpose). Without
influence on costs: `fixed_sizes`, the program has the numbers of features or heads written into it,
so that it cannot run on a part of them (default: false).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from planner.errors import SpecError
from planner.sharding.graph import Graph, Operator
from planner.sharding.operators.checks import flag_attribute, path_of, require
from planner.sharding.operators.rule import (
    InputRule,
    Kind,
    OutputRule,
    Roles,
    Rule,
    RuleOptions,
    Split,
)
from planner.sharding.operators.ways import (
    SEQUENCE,
    SEQUENCE_PARALLEL,
    feature_dimension,
    has_sequence,
)

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Equal blocks of the input along dimension `source` are equal blocks of the output along
    `target`, in any number that divides `units`."""

    source: int
    target: int
    units: int


def _make_rules(
    is_view: bool, operator: Operator, graph: Graph, options: RuleOptions
) -> tuple[Rule, ...]:
    """A role splits a dimension of the input and the one that it becomes, or nothing.

    Data splits the first dimension, column the features, row nothing or the sequence. Nothing is
    computed or kept.
    """
    (x,), (y,) = graph.inputs_of(operator), graph.outputs_of(operator)
    require(
        x.elements == y.elements,
        path_of(operator, "outputs", 0),
        f"{list(y.shape)} has not as many elements as {list(x.shape)}.",
        f"Give a shape of {x.elements} elements.",
    )
    pairs = _pairs(operator, x.shape, y.shape)
    data = next((pair for pair in pairs if pair.source == 0), None)
    features = _features(operator, x.shape, y.shape, pairs)
    column = None if features == data else features
    view = flag_attribute(operator, "is_view", is_view)
    flag_attribute(operator, "fixed_sizes", False)

    def rule(row: Pair | None, suffix: str) -> Rule:
        roles = (data, row, column)
        return Rule(
            units=(_units(data), _units(row), _units(column)),
            limited_by=("batch", "sequence" if row else "copies", "features"),
            inputs=(InputRule(Split(*(None if p is None else p.source for p in roles))),),
            outputs=(
                OutputRule(Split(*(None if p is None else p.target for p in roles)), is_view=view),
            ),
            divides_work=Roles(*(pair is not None for pair in roles)),
            suffix=suffix,
        )

    rules = [rule(None, "")]
    sequence = _sequence(x.shape, y.shape, pairs)
    if options.sequence_parallel and sequence not in (None, data, column):
        rules.append(rule(sequence, SEQUENCE_PARALLEL))
    return tuple(rules)


def _units(pair: Pair | None) -> int | None:
    return None if pair is None else pair.units


def _features(
    operator: Operator, source: Shape, target: Shape, pairs: tuple[Pair, ...]
) -> Pair | None:
    """What column splits: the features of the shape with fewer dimensions, which is the one where
    heads and their sizes are still or again one dimension."""
    if "column_dimension" in operator.attributes or len(target) <= len(source):
        wanted = feature_dimension(operator, target)
        return next((pair for pair in pairs if pair.target == wanted), None)
    wanted = feature_dimension(operator, source)
    return next((pair for pair in pairs if pair.source == wanted), None)


def _sequence(source: Shape, target: Shape, pairs: tuple[Pair, ...]) -> Pair | None:
    if has_sequence(source):
        return next((pair for pair in pairs if pair.source == SEQUENCE), None)
    if has_sequence(target):
        return next((pair for pair in pairs if pair.target == SEQUENCE), None)
    return None


def _pairs(operator: Operator, source: Shape, target: Shape) -> tuple[Pair, ...]:
    if "dimension_map" in operator.attributes:
        return _mapped(operator, source, target)
    if operator.kind == "reshape":
        return tuple(_leading(source, target))
    if sorted(source) != sorted(target) or len(set(source)) < len(source):
        raise SpecError(
            path_of(operator, "attributes", "dimension_map"),
            f"cannot be found from the shapes {list(source)} and {list(target)}.",
            'Give it, such as "0:0,1:2,2:1".',
        )
    return tuple(Pair(at, target.index(size), size) for at, size in enumerate(source))


def _mapped(operator: Operator, source: Shape, target: Shape) -> tuple[Pair, ...]:
    """The pairs that the attribute names."""
    path = path_of(operator, "attributes", "dimension_map")
    text = str(operator.attributes["dimension_map"])
    entries = text.replace(" ", "").split(",")
    if not all(re.fullmatch(r"\d{1,3}:\d{1,3}", entry) for entry in entries):
        raise SpecError(path, f"{text!r} is no map.", 'Give pairs such as "0:0,1:2,2:1".')
    places = [(int(a), int(b)) for a, b in (entry.split(":") for entry in entries)]
    sources, targets = ({pair[side] for pair in places} for side in (0, 1))
    require(
        len(sources) == len(targets) == len(places)
        and max(sources) < len(source)
        and max(targets) < len(target),
        path,
        f"{text!r} does not lead from dimensions of {list(source)} to those of {list(target)}.",
        "Dimensions are numbered from 0 and occur once.",
    )
    swaps = operator.kind == "transpose"
    for a, b in places:
        sizes = source[a], target[b]
        require(
            sizes[0] == sizes[1] if swaps else max(sizes) % min(sizes) == 0,
            path,
            f"dimension {a} of {sizes[0]} cannot become dimension {b} of {sizes[1]}.",
            "Name one of the same size." if swaps else "One size has to divide the other.",
        )
    require(
        not swaps or len(places) == len(source) == len(target),
        path,
        f"{text!r} does not say where all of {list(source)} go.",
        "Give a pair for each dimension.",
    )
    return tuple(Pair(a, b, math.gcd(source[a], target[b])) for a, b in sorted(places))


def _leading(source: Shape, target: Shape) -> Iterator[Pair]:
    """Pairs of a reshape, which keeps elements in their order.

    Dimensions are taken from both sides until their products agree. Of such a group the first
    dimension of each side goes slowest, so blocks of the one are blocks of the other.
    """
    at, to = 0, 0
    while at < len(source) and to < len(target):
        first, start = at, to
        size, other = source[at], target[to]
        at, to = at + 1, to + 1
        while size != other:
            if size < other:
                size, at = size * source[at], at + 1
            else:
                other, to = other * target[to], to + 1
        a, b = _slowest(source, first, at), _slowest(target, start, to)
        yield Pair(a, b, math.gcd(source[a], target[b]))


def _slowest(shape: Shape, first: int, end: int) -> int:
    """The first dimension of a group that has more than one element, or else its first."""
    return next((at for at in range(first, end) if shape[at] > 1), first)


KINDS = tuple(
    Kind(
        name,
        partial(_make_rules, is_view),
        frozenset({"dimension_map", "column_dimension", "is_view", "fixed_sizes"}),
    )
    for name, is_view in (("reshape", True), ("transpose", False))
)
