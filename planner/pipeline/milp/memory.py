"""Device memory in the pipeline MILP: a row at every allocation.

Memory only grows when F, R, or a B that allocates starts, so it suffices to keep it within the
limit at these instants. What is in use when `a` starts: every allocation made no later than a,
less every free (end of B or W) that has happened, less what lies on the host alone.
"""

from __future__ import annotations

from planner.milp.scale import SizeScale
from planner.pipeline.milp.allocations import compute_memory
from planner.pipeline.milp.formulation import FALSE, TRUE, Formulation, Row
from planner.pipeline.milp.offload import away
from planner.pipeline.schedule import Token


def add_device_memory(build: Formulation) -> None:
    """Keep every device with a limit within it."""
    for d, device in enumerate(build.graph.problem.devices):
        if device.activation_memory_bytes is not None:
            _add_device(build, d, device.activation_memory_bytes)


def _add_device(build: Formulation, device: int, limit: int) -> None:
    graph, problem = build.graph, build.graph.problem
    allocations, frees = compute_memory(graph, device)
    on_host: list[tuple[int, int, int]] = []
    for i in graph.transfers_of_device[device]:
        op, s, m = graph.tokens[i]
        if op == "R":
            offload = graph.index[Token("O", s, m)]
            on_host.append((offload, i, problem.stages[s].offload_bytes[m]))
    if sum(allocations.values()) <= limit:
        return
    sizes = [*allocations.values(), *frees.values(), *(size for _, _, size in on_host)]
    scale = SizeScale(limit, sizes)
    undecided = [(o, r) for o, r, _ in on_host if graph.is_open(o)]
    for a in [*allocations, *(reload for _, reload, _ in on_host)]:
        # Where the incumbent orders all around an allocation, what is in use is settled too,
        # unless a micro-batch of the window may lie on the host then.
        if graph.is_free[a] or any(
            not graph.precedes(a, offload) and not graph.precedes(reload, a)
            for offload, reload in undecided
        ):
            _add_allocation(build, a, limit, scale, allocations, frees, on_host)


def _add_allocation(
    build: Formulation,
    a: int,
    limit: int,
    scale: SizeScale,
    allocations: dict[int, int],
    frees: dict[int, int],
    on_host: list[tuple[int, int, int]],
) -> None:
    """The memory in use when `a` starts stays within the limit."""
    row = Row(-scale.room(limit))
    most = -limit
    for i, size in allocations.items():
        counted = TRUE if i == a else build.holds_before(i, a)
        if counted != FALSE:
            row.add_literal(counted, scale.used(size))
            most += size
    for i, size in frees.items():
        freed = build.ended(i, a)
        row.add_literal(freed, -scale.room(size))
        most -= size * (freed == TRUE)
    if most <= 0:
        return
    for offload, reload, size in on_host:
        if reload != a:
            row.add_literal(away(build, offload, reload, a), -scale.room(size))
    build.add_at_most_zero(row)
