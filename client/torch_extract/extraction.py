"""The operator graph of a module, and what was found out about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from client.operator_graph.extraction import Extraction
from client.operator_graph.recognise import recognise
from client.operator_graph.report import report
from client.torch_extract.exporting import export_module
from client.torch_extract.multihead import rewrite_multihead_attention
from client.torch_extract.scalars import scalar_notes
from client.torch_extract.tracing import trace_program


def extract(
    module: torch.nn.Module,
    example_inputs: tuple[Any, ...] | Mapping[str, Any],
    *,
    name: str | None = None,
    fold: bool = True,
) -> Extraction:
    """The graph of a module's forward pass on inputs of these shapes.

    `example_inputs` are the arguments, by place (a tuple) or by name (a mapping). Weights and
    inputs may be fake or on the meta device (`fakes.build_fake`), so that no memory is needed for
    them. The module is taken in the mode that it is in: call `.train()` for dropout. `fold` keeps
    one of identical layers (False: all operators apart).

    Raises `DataDependent` where what runs depends on values of tensors, `ExportFailed` where
    torch.export refuses the module.
    """
    by_name = isinstance(example_inputs, Mapping)
    arguments = () if by_name else tuple(example_inputs)
    keywords = dict(example_inputs) if isinstance(example_inputs, Mapping) else {}
    program = export_module(module, arguments, keywords)
    trace = trace_program(program, module)
    saved_bytes = sum(step.saved_bytes for step in trace.steps)
    rewrite_multihead_attention(trace)
    graph = recognise(trace, fold=fold)
    graph.notes += scalar_notes(program)
    own_name = name or type(module).__name__
    return Extraction(graph.document(), report(graph, name=own_name, saved_bytes=saved_bytes))
