"""Makespan against memory: one profile at many limits, in two placements, with and without
offloading, and the classic schedules at the memory that each takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.common import PROBLEMS
from benchmarks.solving import Solved, solved
from planner.pipeline.classic.placement import v_shape
from planner.pipeline.classic.rows import PIPE_OFFLOAD, comparison_rows, schedules_named
from planner.pipeline.classic.shortage import shortage
from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem

PROBLEM = "zb-6.2b-8x32-offload-k1.0-mem0.25"
LIMITS = (0.25, 0.375, 0.5, 0.625, 0.75, 1.0, 1.25, 1.5, 2.0)


@dataclass(frozen=True, slots=True)
class Way:
    """What the plans may do."""

    is_v_shape: bool
    offloads: bool

    @property
    def name(self) -> str:
        """In words, for tables and pictures."""
        placement = "V shape" if self.is_v_shape else "one chunk"
        return f"{placement}, offloading" if self.offloads else placement


WAYS = (Way(False, False), Way(False, True), Way(True, False), Way(True, True))


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Our answer at a limit, which is a share of 1F1B's peak; PipeOffload's best in the same
    placement at that limit, None where none fits or nothing may be offloaded."""

    way: Way
    limit: float
    answer: Solved
    pipe_offload_ns: int | None


@dataclass(frozen=True, slots=True)
class Dot:
    """A classic schedule where memory has no limit: its makespan (ns), and the most that a device
    holds, as a share of 1F1B's peak."""

    name: str
    placement: str
    makespan_ns: int
    peak: float
    offloads: int


def curve_problem(name: str = PROBLEM) -> PipelineProblem:
    """One stage per device, which can offload; its limit is replaced."""
    return read_problem(json.loads((PROBLEMS / f"{name}.json").read_text()))


def curve(
    problem: PipelineProblem, ways: Sequence[Way], limits: Sequence[float], time_limit_s: float
) -> Iterator[CurvePoint]:
    """Solve the problem in each way at each limit."""
    for way in ways:
        for limit in limits:
            own = limited(problem, way, limit)
            yield CurvePoint(way, limit, solved(own, time_limit_s), _pipe_offload_ns(own))


def limited(problem: PipelineProblem, way: Way, limit: float | None) -> PipelineProblem:
    """The problem with this limit on every device, None for no limit, and in this way."""
    limit_bytes = None if limit is None else round(limit * peak_of_1f1b_bytes(problem))
    nothing = (0,) * problem.micro_batches
    stages = problem.stages
    if not way.offloads:
        stages = tuple(
            replace(s, offload_bytes=nothing, offload_ns=nothing, reload_ns=nothing) for s in stages
        )
    own = replace(
        problem,
        devices=tuple(replace(d, activation_memory_bytes=limit_bytes) for d in problem.devices),
        stages=stages,
    )
    return v_shape(own) if way.is_v_shape else own


def classic_dots(problem: PipelineProblem) -> Iterator[Dot]:
    """Each classic schedule in its own placement. PipeOffload is none of them: what it does
    depends on the limit."""
    whole_bytes = peak_of_1f1b_bytes(problem)
    for row in comparison_rows(limited(problem, Way(False, True), None)):
        if row.timed is not None and row.name != PIPE_OFFLOAD:
            yield Dot(
                row.name,
                "one chunk" if not row.hypothetical else row.placement.value.replace("_", " "),
                row.timed.makespan_ns,
                max(row.timed.peak_memory_bytes) / whole_bytes,
                row.timed.offloads,
            )


def peak_of_1f1b_bytes(problem: PipelineProblem) -> int:
    """What 1F1B holds on the first device: one activation per stage."""
    return len(problem.devices) * problem.stages[0].activation_bytes[0]


def best_classic(
    dots: Sequence[Dot], points: Sequence[CurvePoint], limit: float, *, offloads: bool
) -> tuple[int, str] | None:
    """Makespan (ns) and name of the fastest classic schedule that fits, in any placement."""
    fitting = [
        (dot.makespan_ns, dot.name)
        for dot in dots
        if dot.peak <= limit and (offloads or not dot.offloads)
    ]
    if offloads:
        fitting += [
            (point.pipe_offload_ns, PIPE_OFFLOAD)
            for point in points
            if point.limit == limit and point.pipe_offload_ns is not None
        ]
    return min(fitting, default=None)


def _pipe_offload_ns(problem: PipelineProblem) -> int | None:
    """The fastest of its family that fits."""
    family = schedules_named(problem, PIPE_OFFLOAD)
    return min((own.makespan_ns for own in family if shortage(own) is None), default=None)
