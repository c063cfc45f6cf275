"""Numbers that a program takes from tensors, such as ``x.max().item()``."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from client.torch_extract.aten import IGNORED
from client.torch_extract.tracing import module_of, source_line

SCALARS = frozenset({torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default})


def scalar_notes(program: ExportedProgram) -> list[str]:
    """Of each number that the program takes from a tensor's values: it is none of the graph's."""
    found: dict[str, None] = {}
    for node in program.graph.nodes:
        is_taken = node.op == "call_function" and node.target in SCALARS
        if is_taken and any(_reads_number(user) for user in node.users):
            path, _, _ = module_of(node)
            where = source_line(node) or "the program"
            found[
                f"{path or 'model'}: takes a number from a tensor's values at {where}. The graph "
                "has neither what the number is worked out from nor that others depend on it."
            ] = None
    return list(found)


def _reads_number(node: Node) -> bool:
    """Whether it is more than one of the checks that an export adds."""
    if node.op == "output":
        return False
    name = getattr(node.target, "__name__", "")
    if name.split(".")[0] in IGNORED:
        return False
    is_tensor = isinstance(node.meta.get("val"), torch.Tensor)
    return is_tensor or any(_reads_number(user) for user in node.users)
