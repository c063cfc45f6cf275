"""The schedule that a plan counts on, carried out on its pipeline problem and verified."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from planner.errors import OrderError
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.verify import verify
from planner.progress import StopCheck

if TYPE_CHECKING:
    from planner.pipeline.classic.timed import TimedClassic

OFFLOADS_S = 2.0
"""For a search of a schedule with offloads, where those of the publications do not fit."""


@dataclass(frozen=True)
class CarriedOut:
    """A schedule by its name, None if there is none; `violations` are the rules it breaks.
    `unlimited_ns` is what 1F1B takes on the same problem without offloads and memory limits."""

    name: str
    schedule: Schedule | None
    violations: list[str]
    unlimited_ns: int

    @property
    def makespan_ns(self) -> int:
        """How long it takes."""
        return 0 if self.schedule is None else self.schedule.makespan_ns


@dataclass(frozen=True)
class Causes:
    """What a schedule that was carried out loses to short memory, offloads and reloads included,
    and 1F1B to transfers between ranks, in ns."""

    memory_ns: int
    transfers_ns: int


def carry_out(problem: PipelineProblem, chunks: int, should_stop: StopCheck) -> CarriedOut | None:
    """The first classic schedule that fits: 1F1B, interleaved 1F1B, or one with offloads hidden
    beside it; else what AdaOffload finds. None if told to stop before there is any."""
    # Only solver processes load the libraries that schedules are timed with.
    from planner.pipeline.adaoffload import adaoffload
    from planner.pipeline.classic.shortage import shortage

    unlimited_ns: int | None = None
    for name, timed in _classic(problem, chunks):
        if should_stop():
            return None
        if unlimited_ns is None:
            unlimited_ns = timed.makespan_ns
        if shortage(timed) is None:
            return _checked(problem, name, timed.schedule, unlimited_ns)
    assert unlimited_ns is not None, "1F1B comes first"
    ends = time.monotonic() + OFFLOADS_S
    try:
        schedule = adaoffload(
            problem, should_stop=lambda: should_stop() or time.monotonic() >= ends
        )
    except OrderError as error:
        return CarriedOut("AdaOffload", None, [f"schedule: {error}"], unlimited_ns)
    return _checked(problem, "AdaOffload", schedule, unlimited_ns)


def causes(problem: PipelineProblem, chunks: int, carried_out: CarriedOut) -> Causes:
    """By the same 1F1B with one thing after the other taken away."""
    at_once = tuple(
        replace(t, forward_ns=(0,) * len(t.forward_ns), backward_ns=(0,) * len(t.backward_ns))
        for t in problem.transfers
    )
    _, without_hops = next(_classic(replace(problem, transfers=at_once), chunks))
    return Causes(
        memory_ns=carried_out.makespan_ns - carried_out.unlimited_ns,
        transfers_ns=carried_out.unlimited_ns - without_hops.makespan_ns,
    )


def _checked(
    problem: PipelineProblem, name: str, schedule: Schedule, unlimited_ns: int
) -> CarriedOut:
    violations = [str(violation) for violation in verify(problem, schedule)]
    return CarriedOut(name, schedule, violations, unlimited_ns)


def _classic(problem: PipelineProblem, chunks: int) -> Iterator[tuple[str, TimedClassic]]:
    from planner.pipeline.classic import schedules
    from planner.pipeline.classic.offload import with_offloads

    if chunks == 1:
        base = schedules.one_forward_one_backward_schedule(problem)
        yield "1F1B", base
        if problem.can_offload:
            for timed in schedules.pipe_offload_around(problem, base):
                yield "1F1B with offloads", timed
        return
    base = schedules.interleaved_schedule(problem, chunks)
    yield "interleaved 1F1B", base
    if problem.can_offload:
        for offloaded in range(1, chunks + 1):
            chosen = schedules.first_chunks(problem, chunks, offloaded)
            yield "interleaved 1F1B with offloads", with_offloads(base, chosen)
        for timed in schedules.pipe_offload_interleaved(problem, chunks):
            yield "PipeOffload", timed
