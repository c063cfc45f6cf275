"""What `step` is given about a run and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from planner.following.solve_records import Reason
from planner.following.state import RunState
from planner.following.telemetry import Sample
from planner.pipeline.problem import PipelineProblem

SolvedState = Literal["succeeded", "failed", "cancelled", "infeasible"]


@dataclass(frozen=True, slots=True)
class Solved:
    """How a re-solve ended. `number` is that of the `SolveWanted` it answers; `replacement` the
    answer's document of that name, None where nothing ran to compare with; `unsafe` says why
    its schedule is not proven to keep memory limits for any durations, None where it is."""

    number: int
    state: SolvedState
    replacement: Mapping[str, Any] | None = None
    unsafe: str | None = None
    detail: str | None = None
    makespan_ns: int | None = None
    lower_bound_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What is new about a run: its newest iteration (None before any), the samples of the window
    in any order, acknowledgements (by version: rank to iteration) and the end of the re-solve in
    flight (None while it is not over)."""

    newest_iteration: int | None
    samples: Sequence[Sample] = ()
    acks: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    solved: Solved | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a run, for people."""

    kind: str
    detail: str
    iteration: int


@dataclass(frozen=True, slots=True)
class SolveWanted:
    """A re-solve to be submitted: the fresh problem, what to start from, and how.

    `start_version` is the version whose schedule it starts from and is compared with (None:
    nothing runs that fits). `noise` has the relative standard error of each stage's times.
    """

    number: int
    reason: Reason
    problem: PipelineProblem
    start_version: int | None
    noise: tuple[float, ...]
    time_limit_s: float
    solver: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A version to be stored: the schedule of the solve that just ended (`solve` is its number),
    or of an earlier version (`copy_of`)."""

    number: int
    solve: int | None
    copy_of: int | None
    reason: Reason
    predicted_gain: float | None
    gain_low: float | None
    needs_restart: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state after a look and what is to be carried out, in this order: drop the solve in
    flight, store the new version, submit the solve. `events` are oldest first."""

    state: RunState
    events: tuple[Event, ...] = ()
    drop_solve: bool = False
    publish: NewVersion | None = None
    solve: SolveWanted | None = None
