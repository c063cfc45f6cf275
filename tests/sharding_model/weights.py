"""Kinds of operators that contract over weights or look them up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from planner.sharding.graph import Operator, Tensor
from tests.sharding_model.ways import Array, Use, Way, named


def linear(op: Operator, x: Sequence[Tensor], _y: Sequence[Tensor], sp: bool) -> Iterator[Way]:
    source = named(x[0].shape, k=len(x[0].shape) - 1)
    target = (*source[:-1], "n")
    parameters = (Use(("k", "n")), *(Use(("n",)) for _ in op.parameters[1:]))
    pieces = {
        name: units
        for name, field_name in (("k", "row_units"), ("n", "column_units"))
        if isinstance(units := op.attributes.get(field_name), int)
    }
    way = Way(
        {"b": "d", "k": "r", "n": "c"},
        (Use(source, kept=True),),
        (Use(target),),
        parameters,
        pieces=pieces,
        counts_inputs=True,
    )
    yield way
    if sp and "s" in source:
        apart = (Use(source, True, {"s": "c"}),), (Use(target, apart={"s": "r"}),)
        yield replace(way, inputs=apart[0], outputs=apart[1], adds_apart=True, suffix="sp")


def embedding(op: Operator, x: Sequence[Tensor], y: Sequence[Tensor], sp: bool) -> Iterator[Way]:
    names = named(y[0].shape, h=len(y[0].shape) - 1)
    way = Way(
        {"b": "d", "v": "r", "h": "c"},
        (Use(names[:-1], kept=True),),
        (Use(names),),
        (Use(("v", "h")), *(Use(("", "h")) for _ in op.parameters[1:])),
    )
    yield way
    if sp and "s" in names:
        outputs = (Use(names, apart={"s": "r"}),)
        yield replace(way, outputs=outputs, adds_apart=True, suffix="sp")


def conv(op: Operator, x: Sequence[Tensor], _y: Sequence[Tensor], _sp: bool) -> Iterator[Way]:
    groups = op.attributes.get("groups", 1)
    assert isinstance(groups, int)
    around = ("",) * (len(x[0].shape) - 2)
    source, target = ("g", "g") if groups > 1 else ("i", "o")
    yield Way(
        {"b": "d", "i": "r", "o": "c", "g": "c"},
        (Use(("b", source, *around), kept=True),),
        (Use(("b", target, *around)),),
        (
            Use((target, "" if groups > 1 else "i", *around)),
            *(Use((target,)) for _ in op.parameters[1:]),
        ),
        pieces={"g": groups},
        counts_inputs=True,
    )


def router(op: Operator, x: Sequence[Tensor], y: Sequence[Tensor], sp: bool) -> Iterator[Way]:
    shape, count = x[0].shape, op.parameters[0].shape[1]
    names = named(shape, h=len(shape) - 1)
    each = (*names[:-1], "")
    scores = Array((*shape[:-1], count), each, x[0].dtype)
    chosen = op.attributes.get("experts_per_token", y[-1].shape[-1])
    assert isinstance(chosen, int)
    numbers = () if len(y) == 2 else (Array((*shape[:-1], chosen), each, "int64"),)
    way = Way(
        {"b": "d", "h": "r"},
        (Use(names, kept=True),),
        (Use(each), *(Use(each, kept=True) for _ in y[1:])),
        (Use(("h", "")), *(Use(("",)) for _ in op.parameters[1:])),
        extras=(replace(scores, dtype=y[0].dtype), *numbers),
        reduced=(("r", scores),),
    )
    yield way
    if sp and "s" in names:
        yield replace(way, roles={"b": "d", "s": "r"}, reduced=(), suffix="sp")


def experts(op: Operator, x: Sequence[Tensor], _y: Sequence[Tensor], sp: bool) -> Iterator[Way]:
    shape, dtype = x[0].shape, x[0].dtype
    weights = [parameter.shape for parameter in op.parameters if len(parameter.shape) == 3]
    features = weights[-1][1]
    gated = len(weights) == 3 or weights[0][2] == 2 * features
    chosen = op.attributes.get("experts_per_token", x[-1].shape[-1])
    assert isinstance(chosen, int)
    names = named(shape, h=len(shape) - 1)
    each = (*names[:-1], "")
    parameters, leads_back = [], False
    for number, parameter in enumerate(op.parameters):
        if len(parameter.shape) == 3:
            leads_back = not any(len(own.shape) == 3 for own in op.parameters[number + 1 :])
            parameters.append(Use(("e", "f", "") if leads_back else ("e", "", "f")))
        else:
            parameters.append(Use(("e", "" if leads_back else "f")))
    copies = Array((*shape[:-1], chosen * shape[-1]), each, dtype)
    inner = (*shape[:-1], chosen * (3 if gated else 2) * features)
    way = Way(
        {"b": "dr", "e": "r", "f": "c"},
        (Use(names), *(Use(each, kept=True) for _ in x[1:])),
        (Use(names),),
        tuple(parameters),
        extras=(copies, Array(inner, (*names[:-1], "f"), dtype), copies),
        exchanged=(copies,) * 4,
        counts_inputs=True,
        inner_sums="c",
    )
    yield way
    if sp and "s" in names:
        apart = Use(names, apart={"s": "c"})
        yield replace(
            way,
            roles={"b": "d", "s": "r", "e": "r", "f": "c"},
            inputs=(apart, *way.inputs[1:]),
            outputs=(apart,),
            suffix="sp",
        )
