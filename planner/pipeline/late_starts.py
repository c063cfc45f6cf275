"""The same schedule with every operation as late as it can be, for the steady span.

The steady span of a device runs from its first to its last operation. Timed as early as its
orders allow, a schedule makes first operations wait for nothing and then leaves gaps; started
late, they come when they are needed, and no device ends later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import OpKind, Schedule, TimedOp, Token
from planner.pipeline.timing import schedule_from_ops

Edge = tuple[int, int, int]
"""Operations u and v, by number, and a lag: start(v) >= start(u) + lag."""


def start_late(problem: PipelineProblem, schedule: Schedule) -> Schedule:
    """The schedule with each operation at its latest start, no device's last one moved.

    Kept as they are: the orders on devices, links and hosts, and for each allocation that what
    was free by then is free by then; so what is in use never grows. Both objectives stay or fall.
    """
    ops = schedule.ops
    last_ns = [0] * len(problem.devices)
    for op in ops:
        if op.op in "FBW":
            d = problem.stages[op.stage].device
            last_ns[d] = max(last_ns[d], op.end_ns)
    latest = [last_ns[problem.stages[op.stage].device] - (op.end_ns - op.start_ns) for op in ops]
    # The given starts satisfy every edge and are a floor, so lowering ends; edges mostly lead
    # from earlier to later operations, so few rounds are needed.
    edges = sorted(_edges(problem, ops), key=lambda edge: -ops[edge[0]].start_ns)
    lowered = True
    while lowered:
        lowered = False
        for u, v, lag in edges:
            if latest[u] > latest[v] - lag:
                latest[u] = latest[v] - lag
                lowered = True
    return schedule_from_ops(
        problem,
        [
            op._replace(start_ns=start, end_ns=start + op.end_ns - op.start_ns)
            for op, start in zip(ops, latest, strict=True)
        ],
    )


def _edges(problem: PipelineProblem, ops: tuple[TimedOp, ...]) -> Iterator[Edge]:
    yield from _dependencies(problem, ops)
    rows: dict[object, list[int]] = defaultdict(list)
    allocations: dict[object, list[int]] = defaultdict(list)
    frees: dict[object, list[int]] = defaultdict(list)
    for u, (op, s, m, start, end) in enumerate(ops):
        stage = problem.stages[s]
        host = problem.devices[stage.device].host
        if op in "OR":
            row: object = problem.channel(s, op)
        else:
            row = stage.device
            rows[op, s].append(u)
        if end > start:
            rows[row].append(u)
        if op in "FR" or (op == "B" and stage.backward_allocation_bytes(m)):
            allocations[stage.device].append(u)
        if op in "BWO":
            frees[stage.device].append(u)
        if op in "OR" and host is not None:
            (allocations if op == "O" else frees)["host", host].append(u)
    for row_ops in rows.values():
        yield from _in_turn(ops, row_ops)
    for place, allocating in allocations.items():
        yield from _memory(ops, allocating, frees[place])


def _dependencies(problem: PipelineProblem, ops: tuple[TimedOp, ...]) -> Iterator[Edge]:
    """Rules 2 and 3."""
    number = {op.token: u for u, op in enumerate(ops)}
    last = len(problem.stages) - 1
    before: dict[OpKind, tuple[OpKind, ...]] = {"B": ("F", "R"), "W": ("B",), "O": ("F",)}
    before["R"] = ("O",)
    for v, (op, s, m, _, _) in enumerate(ops):
        for kind in before.get(op, ()):
            u = number.get(Token(kind, s, m))
            if u is not None:
                yield u, v, ops[u].end_ns - ops[u].start_ns
        if op == "F" and s:
            u, hop_ns = number[Token("F", s - 1, m)], problem.transfers[s - 1].forward_ns[m]
        elif op == "B" and s < last:
            u, hop_ns = number[Token("B", s + 1, m)], problem.transfers[s].backward_ns[m]
        else:
            continue
        yield u, v, ops[u].end_ns - ops[u].start_ns + hop_ns


def _in_turn(ops: tuple[TimedOp, ...], row: list[int]) -> Iterator[Edge]:
    """Each operation after the one before it, where it is so already."""
    row.sort(key=lambda u: (ops[u].start_ns, ops[u].end_ns))
    for u, v in pairwise(row):
        if ops[u].end_ns <= ops[v].start_ns:
            yield u, v, ops[u].end_ns - ops[u].start_ns


def _memory(
    ops: tuple[TimedOp, ...], allocating: list[int], freeing: Iterable[int]
) -> Iterator[Edge]:
    """Allocations keep their order, and each comes after the frees that came before it."""
    allocating.sort(key=lambda u: ops[u].start_ns)
    pending = sorted(freeing, key=lambda u: -ops[u].end_ns)
    for u, v in pairwise(allocating):
        yield u, v, 0
    for v in allocating:
        while pending and ops[pending[-1]].end_ns <= ops[v].start_ns:
            u = pending.pop()
            yield u, v, ops[u].end_ns - ops[u].start_ns
