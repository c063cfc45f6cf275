"""Plans made with a share of the time that copies take, executed where copies overlap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.choices.overlap import Executed, Keeps, Overlapping
from benchmarks.following.solves import Solver
from planner.pipeline.offload_time import scaled
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify

FACTORS = (0.7, 0.8, 0.9, 1.0)
CAPACITIES = (1.0, 1.2, 1.43)
"""Copies' worth that a link carries in one direction at once; 1.43 is 1 / 0.7."""


@dataclass(frozen=True)
class Factored:
    """A plan made with one factor. `exported_ns` is the makespan of ranks that keep its waits and
    the order of shared links, `overlapped_ns` those by capacity of ranks that keep its waits.
    `most_memory` is the largest use of any device as a share of its limit, over all capacities,
    by what ranks keep."""

    name: str
    factor: float
    offloads: int
    planned_ns: int
    capacities: Sequence[float]
    exported_ns: int
    overlapped_ns: Sequence[int]
    most_memory: Mapping[Keeps, float]
    wrong: Sequence[str]


def factored(
    name: str,
    problem: PipelineProblem,
    search_iterations: int,
    factors: Sequence[float] = FACTORS,
    capacities: Sequence[float] = CAPACITIES,
) -> Iterator[Factored]:
    """The problem planned with each factor, every plan executed at every capacity."""
    for factor in factors:
        told = scaled(problem, factor)
        plan = Solver(search_iterations).solve(told)
        assert plan is not None
        schedule = schedule_from_ops(told, plan.schedule.ops)
        executed: dict[Keeps, list[Executed]] = {
            keeps: [
                Overlapping(problem, plan.schedule, capacity, keeps).run()
                for capacity in capacities
            ]
            for keeps in Keeps
        }
        yield Factored(
            name=name,
            factor=factor,
            offloads=schedule.offloads,
            planned_ns=schedule.makespan_ns,
            capacities=capacities,
            # No two copies share a link there, so that what it carries does not count.
            exported_ns=executed[Keeps.LINKS][0].makespan_ns,
            overlapped_ns=[own.makespan_ns for own in executed[Keeps.WAITS]],
            most_memory={
                keeps: max(_memory_share(problem, own.peaks_bytes) for own in runs)
                for keeps, runs in executed.items()
            },
            wrong=[str(violation) for violation in verify(told, schedule)],
        )


def _memory_share(problem: PipelineProblem, peaks_bytes: Sequence[int]) -> float:
    """The most of its limit that any device uses."""
    return max(
        (
            peak / device.activation_memory_bytes
            for peak, device in zip(peaks_bytes, problem.devices, strict=True)
            if device.activation_memory_bytes
        ),
        default=0.0,
    )
