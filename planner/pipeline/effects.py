"""What an operation waits for, and what it allocates and frees: rules 2, 3, 5 and 6, one by one."""

from __future__ import annotations

from collections.abc import Iterator

from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import Token

MemoryKey = tuple[str, int]
"""A device or a host, and its number."""


def data_dependencies(problem: PipelineProblem, token: Token) -> Iterator[tuple[Token, int]]:
    """What must have ended before an operation starts, and for how long (ns), where it exists."""
    op, s, m = token
    if op == "F":
        if s:
            yield Token("F", s - 1, m), problem.transfers[s - 1].forward_ns[m]
    elif op == "B":
        if s + 1 < len(problem.stages):
            yield Token("B", s + 1, m), problem.transfers[s].backward_ns[m]
        yield Token("F", s, m), 0
        yield Token("R", s, m), 0
    elif op == "W":
        yield Token("B", s, m), 0
    elif op == "O":
        yield Token("F", s, m), 0
    else:
        yield Token("O", s, m), 0
    if m and op in "FBW" and problem.micro_batch_order is MicroBatchOrder.FIXED:
        yield Token(op, s, m - 1), 0


def memory_effects(problem: PipelineProblem, token: Token) -> Iterator[tuple[MemoryKey, int, int]]:
    """Per memory the bytes that an operation allocates at its start and frees at its end."""
    op, s, m = token
    stage = problem.stages[s]
    device = ("device", stage.device)
    if op == "F":
        yield device, stage.activation_bytes[m], 0
    elif op == "B":
        yield device, stage.backward_allocation_bytes(m), stage.backward_free_bytes(m)
    elif op == "W":
        yield device, 0, stage.late_bytes(m)
    else:
        moved = stage.offload_bytes[m]
        yield device, *((0, moved) if op == "O" else (moved, 0))
        host = problem.devices[stage.device].host
        if host is not None:
            yield ("host", host), *((moved, 0) if op == "O" else (0, moved))


def memory_limits(problem: PipelineProblem) -> dict[MemoryKey, int]:
    """The limit in bytes of every memory that has one."""
    limits = {
        ("device", d): device.activation_memory_bytes for d, device in enumerate(problem.devices)
    } | {("host", h): host.memory_bytes for h, host in enumerate(problem.hosts)}
    return {key: limit for key, limit in limits.items() if limit is not None}
