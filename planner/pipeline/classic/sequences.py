"""Token orders of the schedules that are fixed patterns, one sequence per device."""

from __future__ import annotations

from collections.abc import Iterable

from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import OpKind, Token
from planner.pipeline.timing import Orders

Step = tuple[OpKind, int, int]
"""An operation of a stage and micro-batch."""


def gpipe(problem: PipelineProblem) -> Orders:
    """All forwards, then all backwards (GPipe, arXiv 1811.06965). One chunk, fused backward."""
    count = problem.micro_batches
    return _orders(
        problem,
        {
            s: [*_run("F", s, range(count)), *_run("B", s, range(count))]
            for s in range(len(problem.stages))
        },
    )


def one_forward_one_backward(problem: PipelineProblem) -> Orders:
    """1F1B: p - s forwards on stage s of p, then a backward and a forward in turn (PipeDream-
    Flush, arXiv 2006.09503; Megatron-LM). One chunk, fused backward."""
    stages, count = len(problem.stages), problem.micro_batches
    sequences = {}
    for s in range(stages):
        forwards, backwards = _run("F", s, range(count)), _run("B", s, range(count))
        sequences[s] = _alternate(forwards, backwards, min(count, stages - s - 1))
    return _orders(problem, sequences)


def zero_bubble_h1(problem: PipelineProblem) -> Orders:
    """The ZB-H1 pattern for equal times (arXiv 2401.10241): the order of 1F1B, and after a backward
    of stage s the W of the micro-batch s before it, so that every stage holds p micro-batches. One
    chunk."""
    stages, count = len(problem.stages), problem.micro_batches
    sequences = {}
    for s in range(stages):
        warm_up = min(count, stages - s)
        steps = _run("F", s, range(warm_up))
        for m in range(count):
            steps += _run("B", s, [m])
            steps += _run("W", s, range(max(0, m - s), m - s + 1))
            steps += _run("F", s, range(warm_up + m, min(count, warm_up + m + 1)))
        sequences[s] = [*steps, *_run("W", s, range(max(0, count - s), count))]
    return _orders(problem, sequences)


def interleaved_one_forward_one_backward(
    problem: PipelineProblem, chunks: int, extra_warm_up: int = 0
) -> Orders:
    """Megatron-LM's interleaved 1F1B (arXiv 2104.04473) on `chunks` rounds of the devices.

    Micro-batches pass chunk by chunk in groups of p, the number of devices; the last group takes
    up the remainder where their number is no multiple of p. Device r starts with
    2(p - r - 1) + (chunks - 1)p forwards, and with `extra_warm_up` more. Fused backward.
    """
    ring, count = len(problem.stages) // chunks, problem.micro_batches
    starts = list(range(0, max(1, count - count % ring), ring))
    groups = [range(start, count if start == starts[-1] else start + ring) for start in starts]
    sequences = {}
    for r in range(ring):
        forwards, backwards = [], []
        for group in groups:
            for c in range(chunks):
                forwards += _run("F", c * ring + r, group)
                backwards += _run("B", (chunks - 1 - c) * ring + r, group)
        warm_up = 2 * (ring - r - 1) + (chunks - 1) * max(len(groups[0]), len(groups[-1]))
        sequences[r] = _alternate(forwards, backwards, min(len(forwards), warm_up + extra_warm_up))
    return _orders(problem, sequences)


def zero_bubble_v(problem: PipelineProblem) -> Orders:
    """The ZB-V pattern (arXiv 2405.15362) as in PyTorch's ScheduleZBVZeroBubble.

    Devices hold stage r of the way down and its mirror of the way up. With fewer than 2p - 1
    micro-batches the pattern is that of 2p - 1 without the surplus. Where the backward is fused
    there is no W to fill bubbles with.
    """
    stages, count = len(problem.stages), problem.micro_batches
    ring = stages // 2
    pattern_count = max(2 * ring - 1, count)
    sequences = {}
    for r in range(ring):
        steps = _zero_bubble_v_steps(ring, r, pattern_count)
        chunk = (r, stages - 1 - r)
        sequences[r] = [(op, chunk[c], m) for op, c, m in steps if m < count]
    return _orders(problem, sequences)


def _zero_bubble_v_steps(ring: int, rank: int, count: int) -> list[tuple[OpKind, int, int]]:
    """(operation, chunk, micro-batch) of one device, chunk 1 being the way up."""
    done: dict[tuple[OpKind, int], int] = {}
    steps: list[tuple[OpKind, int, int]] = []

    def run(*which: tuple[OpKind, int]) -> None:
        for op, chunk in which:
            m = done.get((op, chunk), 0)
            done[op, chunk] = m + 1
            steps.append((op, chunk, m))

    for _ in range(2 * (ring - rank) - 1):
        run(("F", 0))
    for _ in range(rank):
        run(("F", 1), ("F", 0))
    for _ in range(ring - rank):
        run(("F", 1), ("B", 1), ("W", 1))
    while done.get(("F", 1), 0) < done["F", 0] or done["F", 0] < count:
        if done["F", 0] < count:
            run(("F", 0))
        run(("B", 0), ("W", 0), ("F", 1), ("B", 1), ("W", 1))
    for _ in range(rank):
        run(("B", 0), ("B", 1))
    for _ in range(ring - rank):
        run(("B", 0), ("W", 0))
    for chunk in (1, 0):
        while done.get(("W", chunk), 0) < done["B", chunk]:
            run(("W", chunk))
    return steps


def _run(op: OpKind, stage: int, micro_batches: Iterable[int]) -> list[Step]:
    return [(op, stage, m) for m in micro_batches]


def _alternate(forwards: list[Step], backwards: list[Step], warm_up: int) -> list[Step]:
    """The first forwards, then forward and backward in turn, then the last backwards."""
    steady = len(forwards) - warm_up
    pairs = zip(forwards[warm_up:], backwards[:steady], strict=True)
    return [*forwards[:warm_up], *(step for pair in pairs for step in pair), *backwards[steady:]]


def _orders(problem: PipelineProblem, sequences: dict[int, list[Step]]) -> Orders:
    """Orders by device, from one sequence per rank; W only where it is an operation."""
    compute: list[list[Token]] = [[] for _ in problem.devices]
    for rank, steps in sequences.items():
        compute[problem.stages[rank].device] = [
            Token(op, s, m) for op, s, m in steps if op != "W" or problem.stages[s].has_weight_op(m)
        ]
    return Orders(tuple(map(tuple, compute)))
