"""What `improve_with_cp_sat` and its child process say to each other: a JSON document a line.

The parent sends one task. The child sends messages, each with a `kind` and a `value`: `log` (a
line), `bound` (name and ns), `incumbent` (a schedule), and at the end `outcome` or `infeasible`
(why). Of a schedule only the operations are read; its figures follow from them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.timing import schedule_from_ops

Status = Literal["optimal", "gap", "time_limit", "stopped"]


@dataclass(frozen=True)
class CpSatSettings:
    """`mip_gap` is relative. `lower_bound_ns` is already proven on the problem's objective."""

    time_limit_s: float
    mip_gap: float
    threads: int
    seed: int
    lower_bound_ns: int


@dataclass(frozen=True)
class CpSatOutcome:
    """`schedule` is better than the start, or None. `lower_bound_ns` bounds the problem's own
    objective; None if nothing was proven beyond what was known. `rounds` has one entry per run
    of the solver; the counts are those of the largest model."""

    schedule: Schedule | None
    lower_bound_ns: int | None
    status: Status
    variables: int
    constraints: int
    rounds: list[dict[str, Any]]


@dataclass(frozen=True)
class Task:
    """What the child is to improve."""

    problem: PipelineProblem
    start: Schedule | None
    settings: CpSatSettings

    def to_document(self) -> dict[str, Any]:
        """As the parent sends it."""
        return {
            "problem": problem_to_document(self.problem),
            "start": self.start and self.start.to_document(None),
            "settings": asdict(self.settings),
        }

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Task:
        """The reverse."""
        problem = read_problem(document["problem"])
        start = document["start"] and read_schedule(problem, document["start"])
        return cls(problem, start, CpSatSettings(**document["settings"]))


def to_line(document: Mapping[str, Any]) -> bytes:
    """A document as one line."""
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def outcome_document(outcome: CpSatOutcome) -> dict[str, Any]:
    """As the child sends it."""
    return {**vars(outcome), "schedule": outcome.schedule and outcome.schedule.to_document(None)}


def read_outcome(problem: PipelineProblem, document: Mapping[str, Any]) -> CpSatOutcome:
    """The reverse."""
    schedule = document["schedule"] and read_schedule(problem, document["schedule"])
    return CpSatOutcome(**{**document, "schedule": schedule})


def read_schedule(problem: PipelineProblem, document: Mapping[str, Any]) -> Schedule:
    """A schedule from `Schedule.to_document`."""
    return schedule_from_ops(problem, [TimedOp(**op) for op in document["ops"]])
