"""Weights that several operators share: the first one holds them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from client.operator_graph.records import GraphRecord, OperatorRecord
from client.operator_graph.trace import Value


def tie_parameters(graph: GraphRecord) -> None:
    """Mark parameters that another operator holds, and say which modules were called repeatedly."""
    holder: dict[Value, OperatorRecord] = {}
    for operator in graph.operators:
        own = []
        for parameter in operator.parameters:
            first = holder.setdefault(parameter.source, operator)
            tied = None if first is operator else first.name
            own.append(replace(parameter, tied_to=tied))
        operator.parameters = own
    graph.notes += _unrolled(graph, holder)


def _unrolled(graph: GraphRecord, holder: dict[Value, OperatorRecord]) -> list[str]:
    """A weight that one module uses several times is a loop, which is written out."""
    times: dict[tuple[Value, str, str], int] = defaultdict(int)
    calls: dict[str, int] = defaultdict(int)
    for operator in graph.operators:
        calls[operator.module] = max(calls[operator.module], operator.call + 1)
        for parameter in operator.parameters:
            times[parameter.source, operator.module, operator.kind] += 1
    for (_, module, _), count in times.items():
        calls[module] = max(calls[module], count)
    loops = {module: count for module, count in calls.items() if count > 1}
    return [
        f"{module or 'model'} runs {count} times on the same weights: the loop is written out, "
        "and its operators share them."
        for module, count in loops.items()
        if not any(module.startswith(f"{outer}.") for outer in loops)
    ]
