"""Heads as the pieces that projections may be split in."""

from __future__ import annotations

from client.operator_graph.records import GraphRecord, OperatorRecord


def mark_heads(graph: GraphRecord) -> None:
    """Give linear layers around an attention the heads as indivisible pieces of their features.

    A projection whose output is viewed as heads may be cut between heads only, and so may the
    input of the layer behind merged heads.
    """
    maker = {tensor.name: own for own in graph.operators for tensor in own.outputs}
    shapes = {tensor.name: tensor.shape for own in graph.operators for tensor in own.outputs}
    for operator in graph.operators:
        if operator.kind == "reshape":
            source, target = shapes.get(operator.inputs[0]), operator.outputs[0].shape
            if (
                source
                and len(target) == len(source) + 1
                and target[: len(source) - 1] == source[:-1]
            ):
                _mark(maker.get(operator.inputs[0]), "column_units", target[-2])
        elif operator.kind == "split_heads":
            heads = operator.outputs[-1].shape[1]
            _mark(maker.get(operator.inputs[0]), "column_units", heads)
        elif operator.kind == "linear":
            merged = maker.get(operator.inputs[0])
            if merged is not None and merged.kind == "merge_heads":
                heads = shapes.get(merged.inputs[0], (1, 1))[1]
                _mark(operator, "row_units", heads)


def _mark(operator: OperatorRecord | None, attribute: str, units: int) -> None:
    if operator is not None and operator.kind == "linear":
        operator.attributes[attribute] = units
