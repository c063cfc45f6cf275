"""What the computation of a device allocates and frees, by operation of the precedence graph."""

from __future__ import annotations

from planner.pipeline.milp.graph import PrecedenceGraph


def compute_memory(graph: PrecedenceGraph, device: int) -> tuple[dict[int, int], dict[int, int]]:
    """Bytes allocated at the starts of F and B, where there are any, and freed at the ends of B
    and W."""
    allocations: dict[int, int] = {}
    frees: dict[int, int] = {}
    for i in graph.compute_of_device[device]:
        op, s, m = graph.tokens[i]
        stage = graph.problem.stages[s]
        if op == "F":
            allocations[i] = stage.activation_bytes[m]
        elif op == "B":
            allocations[i] = stage.backward_allocation_bytes(m)
            frees[i] = stage.backward_free_bytes(m)
        else:
            frees[i] = stage.late_bytes(m)
    return {i: size for i, size in allocations.items() if size}, frees
