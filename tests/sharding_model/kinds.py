"""All kinds of operators, and the ways to split one whatever its kind."""

from __future__ import annotations

from dataclasses import replace

from planner.sharding.graph import Graph, Operator
from tests.sharding_model import activations, weights
from tests.sharding_model.ways import Maker, Way

MAKERS: dict[str, Maker] = {
    "input": activations.source,
    "matmul": activations.matmul,
    "attention": activations.attention,
    "softmax": activations.softmax,
    "layer_norm": activations.norm,
    "rms_norm": activations.norm,
    **dict.fromkeys(activations.KEEP_INPUT, activations.elementwise),
    **dict.fromkeys(activations.KEEP_OUTPUT, activations.elementwise),
    **dict.fromkeys(("add", "mul", "dropout", "scale", "cast"), activations.elementwise),
    "cross_entropy": activations.cross_entropy,
    "reshape": activations.rearranged,
    "transpose": activations.rearranged,
    "split_heads": activations.heads,
    "merge_heads": activations.heads,
    "glu": activations.glu,
    "linear": weights.linear,
    "embedding": weights.embedding,
    **dict.fromkeys(("conv", "conv1d", "conv2d"), weights.conv),
    "router": weights.router,
    "experts": weights.experts,
}


def ways_of(operator: Operator, graph: Graph, sequence_parallel: bool) -> list[Way]:
    """All ways to split an operator, at least one."""
    make = MAKERS.get(operator.kind, activations.unknown)
    inputs, outputs = graph.inputs_of(operator), graph.outputs_of(operator)
    found = list(make(operator, inputs, outputs, sequence_parallel))
    if operator.kind == "merge_heads" and "is_view" not in operator.attributes:
        maker = graph.operators[graph.producer_of[operator.inputs[0]]]
        return [replace(way, is_view=maker.kind == "attention") for way in found]
    return found
