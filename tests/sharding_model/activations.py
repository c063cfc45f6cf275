"""Kinds of operators that have no weights (norms have some, one for each feature)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from planner.sharding.graph import Operator, Tensor
from tests.sharding_model.ways import (
    IN_SEQUENCE,
    USUAL,
    Array,
    Names,
    Shape,
    Use,
    Way,
    features,
    named,
    usual,
)

Pair = tuple[int, int]
"""Dimensions of two shapes that become each other."""

KEEP_INPUT, KEEP_OUTPUT = ("gelu", "silu"), ("relu", "tanh", "sigmoid")


def source(op: Operator, _x: Sequence[Tensor], y: Sequence[Tensor], sp: bool) -> Iterator[Way]:
    names = named(y[0].shape, f=features(op, y[0].shape))
    for roles, suffix in usual(names, sp):
        yield Way(roles, (), (Use(names),), suffix=suffix)


def matmul(op: Operator, x: Sequence[Tensor], _y: Sequence[Tensor], _sp: bool) -> Iterator[Way]:
    a, b = x
    of_a: Names
    of_b: Names
    if len(a.shape) == 2:
        of_a, of_b, roles = ("m", "k"), ("k", "n"), {"m": "d", "k": "r", "n": "c"}
    elif len(a.shape) == 3:
        of_a, of_b, roles = ("b", "", "k"), ("b", "k", "n"), {"b": "d", "k": "r", "n": "c"}
    else:
        heads = ("b", "g", *[""] * (len(a.shape) - 4))
        of_a, of_b = (*heads, "", "k"), (*heads, "k", "")
        roles = {"b": "d", "g": "c", "k": "r"}
    target = (*of_a[:-1], of_b[-1])
    if op.attributes.get("transpose_b"):
        of_b = (*of_b[:-2], of_b[-1], of_b[-2])
    yield Way(
        roles,
        (Use(of_a, b.has_gradient), Use(of_b, a.has_gradient)),
        (Use(target),),
        counts_inputs=len(a.shape) < 4,
    )


def attention(_: Operator, x: Sequence[Tensor], _y: Sequence[Tensor], _sp: bool) -> Iterator[Way]:
    use = Use(("b", "g", "", ""), kept=True)
    sums = Array(x[0].shape[:3], use.names[:3], "fp32")
    yield Way({"b": "d", "g": "c"}, (use,) * 3, (use,), extras=(sums,))


def softmax(op: Operator, x: Sequence[Tensor], _y: Sequence[Tensor], _sp: bool) -> Iterator[Way]:
    shape = x[0].shape
    heads = op.attributes.get("column_dimension", 1 if len(shape) > 2 else None)
    assert heads is None or isinstance(heads, int)
    names = named(shape, f=heads) if len(shape) > 1 else ("",)
    yield Way(USUAL, (Use(names),), (Use(names, kept=True),))


def norm(op: Operator, x: Sequence[Tensor], _y: Sequence[Tensor], sp: bool) -> Iterator[Way]:
    shape = x[0].shape
    names = named(shape, f=len(shape) - 1)
    sums = 2 if op.kind == "layer_norm" else 1
    dtype = "fp64" if x[0].dtype == "fp64" else "fp32"
    statistics = Array((*shape[:-1], sums), (*names[:-1], ""), dtype)
    for roles, suffix in usual(names, sp):
        yield Way(
            roles,
            (Use(names, kept=True),),
            (Use(names),),
            (Use(("f",)),) * len(op.parameters),
            extras=(statistics,),
            reduced=(("c", statistics),) * 2,
            suffix=suffix,
        )


def elementwise(op: Operator, x: Sequence[Tensor], y: Sequence[Tensor], sp: bool) -> Iterator[Way]:
    shape = y[0].shape
    names = named(shape, f=features(op, shape))
    uses = []
    for place, tensor in enumerate(x):
        ahead = len(shape) - len(tensor.shape)
        own = tuple(
            names[ahead + at] if size == shape[ahead + at] else ""
            for at, size in enumerate(tensor.shape)
        )
        others = [other for at, other in enumerate(x) if at != place]
        of_product = op.kind == "mul" and others[0].has_gradient
        uses.append(Use(own, op.kind in KEEP_INPUT or of_product))
    masks = (Array(shape, names, "bool"),) if op.kind == "dropout" else ()
    for roles, suffix in usual(names, sp):
        made = (Use(names, op.kind in KEEP_OUTPUT),)
        yield Way(roles, tuple(uses), made, extras=masks, suffix=suffix)


def cross_entropy(
    _op: Operator, x: Sequence[Tensor], y: Sequence[Tensor], sp: bool
) -> Iterator[Way]:
    logits, (loss,) = x[0], y
    names = named(logits.shape, f=len(logits.shape) - 1)
    per_row = Array(logits.shape[:-1], names[:-1], "fp64" if logits.dtype == "fp64" else "fp32")
    for roles, suffix in usual(names, sp):
        yield Way(
            roles,
            (Use(names), Use(names[:-1], kept=True)),
            (Use(names[: len(loss.shape)]),),
            extras=(Array(logits.shape, names, loss.dtype),),
            reduced=(("c", per_row),) * 3,
            suffix=suffix,
        )


def rearranged(op: Operator, x: Sequence[Tensor], y: Sequence[Tensor], sp: bool) -> Iterator[Way]:
    """Reshape and transpose: dimensions that correspond have the same name."""
    source, target = x[0].shape, y[0].shape
    pairs = _corresponding(op, source, target)
    data = next((pair for pair in pairs if pair[0] == 0), None)
    # Features are those of the shape with fewer dimensions, where heads are not yet apart.
    of_source = "column_dimension" not in op.attributes and len(target) > len(source)
    wanted = features(op, source if of_source else target)
    column = next((pair for pair in pairs if pair[0 if of_source else 1] == wanted), None)
    column = None if column == data else column
    three = next((side for side, own in enumerate((source, target)) if len(own) == 3), None)
    sequence = next((pair for pair in pairs if three is not None and pair[three] == 1), None)

    def way(row: Pair | None, suffix: str) -> Way:
        before, after = [""] * len(source), [""] * len(target)
        for name, pair in (("b", data), ("f", column), ("s", row)):
            if pair is not None:
                before[pair[0]] = after[pair[1]] = name
        return Way(
            USUAL | IN_SEQUENCE,
            (Use(tuple(before)),),
            (Use(tuple(after)),),
            suffix=suffix,
            is_view=bool(op.attributes.get("is_view", op.kind == "reshape")),
        )

    yield way(None, "")
    if sp and sequence not in (None, data, column):
        yield way(sequence, "sp")


def _corresponding(op: Operator, source: Shape, target: Shape) -> list[Pair]:
    given = op.attributes.get("dimension_map")
    if isinstance(given, str):
        pairs = (entry.split(":") for entry in given.split(","))
        return sorted((int(a), int(b)) for a, b in pairs)
    if op.kind == "transpose":
        return [(at, target.index(size)) for at, size in enumerate(source)]
    found, at, to = [], 0, 0
    while at < len(source) and to < len(target):
        k, n = next(
            (k, n)
            for total in range(2, len(source) + len(target) + 1)
            for k in range(1, len(source) - at + 1)
            for n in range(1, len(target) - to + 1)
            if k + n == total and math.prod(source[at : at + k]) == math.prod(target[to : to + n])
        )
        found.append((_slowest(source, at, k), _slowest(target, to, n)))
        at, to = at + k, to + n
    return found


def _slowest(shape: Shape, first: int, count: int) -> int:
    """The first of so many dimensions that has more than one element, or the first one."""
    return min(range(first, first + count), key=lambda place: shape[place] == 1)


def heads(op: Operator, x: Sequence[Tensor], y: Sequence[Tensor], _sp: bool) -> Iterator[Way]:
    merged, apart = ("b", "", "g"), ("b", "g", "", "")
    source, target = (merged, apart) if op.kind == "split_heads" else (apart, merged)
    view = bool(op.attributes.get("is_view", False))
    yield Way({"b": "d", "g": "c"}, (Use(source),), (Use(target),) * len(y), is_view=view)


def glu(_op: Operator, x: Sequence[Tensor], y: Sequence[Tensor], sp: bool) -> Iterator[Way]:
    names = named(y[0].shape, f=len(y[0].shape) - 1)
    for roles, suffix in usual(names, sp):
        yield Way(roles, (Use(names, kept=True),) * len(x), (Use(names),), suffix=suffix)


def unknown(op: Operator, x: Sequence[Tensor], y: Sequence[Tensor], _sp: bool) -> Iterator[Way]:
    batch = y[0].shape[:1]

    def use(tensor: Tensor) -> Use:
        begins = bool(batch) and tensor.shape[:1] == batch
        return Use(
            tuple("b" if begins and at == 0 else "" for at in range(len(tensor.shape))), True
        )

    parameters = tuple(Use(("",) * len(parameter.shape)) for parameter in op.parameters)
    yield Way({"b": "d"}, tuple(map(use, x)), tuple(map(use, y)), parameters)
