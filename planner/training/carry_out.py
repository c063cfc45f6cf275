"""The schedule that a plan counts on, carried out on its pipeline problem and verified."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
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
    """A schedule by its name, None if there is none; `violations` are the rules it breaks."""

    name: str
    schedule: Schedule | None
    violations: list[str]

    @property
    def makespan_ns(self) -> int:
        """How long it takes."""
        return 0 if self.schedule is None else self.schedule.makespan_ns


def carry_out(problem: PipelineProblem, chunks: int, should_stop: StopCheck) -> CarriedOut | None:
    """The first classic schedule that fits: 1F1B, interleaved 1F1B, or one with offloads hidden
    beside it; else what AdaOffload finds. None if told to stop before there is any."""
    # Only solver processes load the libraries that schedules are timed with.
    from planner.pipeline.adaoffload import adaoffload
    from planner.pipeline.classic.rows import shortage

    for name, timed in _classic(problem, chunks):
        if should_stop():
            return None
        if shortage(timed) is None:
            return _checked(problem, name, timed.schedule)
    ends = time.monotonic() + OFFLOADS_S
    try:
        schedule = adaoffload(
            problem, should_stop=lambda: should_stop() or time.monotonic() >= ends
        )
    except OrderError as error:
        return CarriedOut("AdaOffload", None, [f"schedule: {error}"])
    return _checked(problem, "AdaOffload", schedule)


def _checked(problem: PipelineProblem, name: str, schedule: Schedule) -> CarriedOut:
    violations = [str(violation) for violation in verify(problem, schedule)]
    return CarriedOut(name, schedule, violations)


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
