"""What a graph says about the program, for people and for checks."""

from __future__ import annotations

import math
from typing import Any

from client.operator_graph.records import DTYPE_BYTES, GraphRecord, OperatorRecord
from client.operator_graph.trace import Value


def report(graph: GraphRecord, *, name: str, saved_bytes: int | None) -> dict[str, Any]:
    """Per operator FLOPs, bytes kept for the backward and whether it is a view; the sums, with
    layers counted as often as they occur; and what to know about the graph.

    `saved_bytes`: what the whole forward pass keeps as measured, inputs included and weights not;
    None where that was not measured.
    """
    layers = _layers_of(graph)
    times = [(own, layers.get(own.name, 1)) for own in graph.operators]
    repeat = graph.repeat
    return {
        "name": name,
        "operators": [_operator(own, count, saved_bytes) for own, count in times],
        "layers": None if repeat is None else {"module": repeat.module, "count": repeat.count},
        "totals": {
            "operators": sum(count for _, count in times),
            "parameters": sum(count * _parameters(own) for own, count in times),
            "parameter_bytes": sum(count * _parameters(own, in_bytes=True) for own, count in times),
            "forward_flops": sum(count * own.flops for own, count in times),
            "saved_bytes": saved_bytes,
        },
        "notes": graph.notes,
    }


def _operator(own: OperatorRecord, layers: int, measured: int | None) -> dict[str, Any]:
    return {
        "name": own.name,
        "kind": own.kind,
        "module": own.module,
        "layers": layers,
        "forward_flops": own.flops,
        "saved_bytes": None if measured is None else own.saved_bytes,
        "parameter_bytes": _parameters(own, in_bytes=True),
        "is_view": own.is_view,
    }


def _parameters(own: OperatorRecord, *, in_bytes: bool = False) -> int:
    """Elements or bytes of the weights that an operator holds itself."""
    held: dict[Value, None] = dict.fromkeys(
        parameter.source for parameter in own.parameters if parameter.tied_to is None
    )
    return sum(
        math.prod(value.shape) * (DTYPE_BYTES[value.dtype] if in_bytes else 1) for value in held
    )


def _layers_of(graph: GraphRecord) -> dict[str, int]:
    if graph.repeat is None:
        return {}
    repeat = graph.repeat
    inside = f"{repeat.module}."
    return {
        own.name: repeat.count
        for own in graph.operators
        if own.module == repeat.module or own.module.startswith(inside)
    }
