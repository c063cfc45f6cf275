"""All passes over a trace in their order, up to the graph."""

from __future__ import annotations

from client.operator_graph.biases import fuse_biases
from client.operator_graph.build import GraphBuilder
from client.operator_graph.experts import fuse_experts, fuse_routers
from client.operator_graph.gating import fuse_gated
from client.operator_graph.heads import fuse_heads
from client.operator_graph.norms import fuse_norms
from client.operator_graph.pointwise import find_rotations, fuse_pointwise
from client.operator_graph.positions import fold_positions
from client.operator_graph.records import GraphRecord, RepeatRecord
from client.operator_graph.repeats import fold_layers
from client.operator_graph.softmax import fuse_softmax
from client.operator_graph.ties import tie_parameters
from client.operator_graph.trace import Loop, Trace
from client.operator_graph.transposes import compose_transposes
from client.operator_graph.units import mark_heads


def recognise(trace: Trace, *, fold: bool = True, loop: Loop | None = None) -> GraphRecord:
    """The graph of a traced program; `fold` keeps one of identical layers, of which a `loop` that
    the program has is one already."""
    compose_transposes(trace)
    fuse_biases(trace)
    fold_positions(trace)
    fuse_norms(trace)
    fuse_softmax(trace)
    find_rotations(trace)
    fuse_routers(trace)
    fuse_experts(trace)
    fuse_pointwise(trace)
    fuse_gated(trace)
    fuse_heads(trace)
    builder = GraphBuilder(trace)
    graph = builder.build()
    mark_heads(graph)
    tie_parameters(graph)
    if loop is not None:
        entry, exit_ = builder.name_of(loop.entry), builder.name_of(loop.exit)
        graph.repeat = RepeatRecord(loop.count, entry, exit_, loop.module)
    elif fold:
        fold_layers(graph)
    return graph
