"""Timelines: what a chart of a pipeline schedule needs, from the result or the run that has it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.callers import Caller
from app.database import Database
from app.errors import InvalidRequest, NoTimeline
from app.repositories.job_rows import JobReader
from app.services.job_views import row_of
from app.services.jobs import JobResult, Jobs
from app.services.resolutions import json_text
from app.services.runs.runs import Runs
from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.timeline.answer import (
    OWN,
    Row,
    has_problem_of,
    own_timeline,
    placement_of,
    row_timeline,
    rows_named,
)

Answer = Mapping[str, Any]
"""The result of a pipeline schedule."""


@dataclass(frozen=True)
class Chosen:
    """Which schedule: the answer's own, or one that it is compared with."""

    schedule: str | None
    placement: str | None

    @property
    def is_own(self) -> bool:
        """Whether it is the answer's own, which need not be built."""
        return self.schedule in (None, OWN)


class Timelines:
    """The timelines of results."""

    def __init__(self, database: Database, jobs: Jobs, runs: Runs) -> None:
        self._database = database
        self._jobs = jobs
        self._runs = runs

    def timeline(
        self, caller: Caller, job_id: str, chosen: Chosen, is_known: Callable[[str], bool]
    ) -> JobResult:
        """The timeline of a schedule; nothing is worked out if the caller has the one of this
        version.

        Raises what `Jobs.result` raises, `NoTimeline` where there is no such schedule, and
        `InvalidRequest` where it is not clear which is meant.
        """
        result = self._jobs.result(caller, job_id, is_known)
        if result.text is None:
            return result
        answer = _pipeline_answer(json.loads(result.text))
        if chosen.is_own:
            document = _own(answer, chosen)
        else:
            document = self._compared(caller, job_id, answer, chosen)
        return JobResult(result.version, json_text(document))

    def of_run(self, caller: Caller, run_id: str, version: int) -> str:
        """The timeline of a version of a run's plan as JSON text. Raises what `Runs.plan` does."""
        plan = json.loads(self._runs.plan_document(caller, run_id, version))
        return json_text(own_timeline(plan, f"Version {version}"))

    def _compared(
        self, caller: Caller, job_id: str, answer: Answer, chosen: Chosen
    ) -> dict[str, Any]:
        row = _row(answer, chosen)
        if row["makespan_ns"] is None:
            raise NoTimeline.of(
                "schedule", f"{row['name']} ({row['placement']}) was not made: {row['reason']}.", ""
            )
        timeline = row_timeline(answer, row, self._problem(caller, job_id, answer, row))
        if timeline is None:
            raise NoTimeline.of(
                "schedule",
                f"This version makes another {row['name']} than the one that was compared with.",
                "Post the request again with `Cache-Control: no-cache`.",
            )
        return timeline

    def _problem(self, caller: Caller, job_id: str, answer: Answer, row: Row) -> PipelineProblem:
        if has_problem_of(answer, row):
            return read_problem(answer["problem"])
        with self._database.looking() as connection:
            spec = JobReader(connection).spec(row_of(connection, caller, job_id).solve_id)
        problems = {own["placement"]: own["problem"] for own in json.loads(spec)["candidates"]}
        return read_problem(problems[row["placement"]])


def _pipeline_answer(document: Mapping[str, Any]) -> Answer:
    """The result itself, or what a training plan has of a pipeline schedule."""
    if "infeasibility" in document:
        raise NoTimeline.of(
            "", "Nothing fits, so there is no schedule.", "The result says what is missing."
        )
    if "best" not in document and "schedule" not in document:
        raise NoTimeline.of(
            "",
            "This is no schedule in time.",
            "Ask for the timeline of a pipeline schedule or of a training plan.",
        )
    answer = document if "best" not in document else document["best"].get("schedule")
    if answer is None:
        why = document["best"].get("left_out", {}).get("schedule", "it was not solved")
        raise NoTimeline.of("", f"The best plan has no schedule: {why}", "")
    own: Answer = answer
    return own


def _own(answer: Answer, chosen: Chosen) -> dict[str, Any]:
    placement = placement_of(answer)
    if chosen.placement not in (None, placement):
        raise NoTimeline.of(
            "placement", f"The answer's own schedule is of the placement {placement}.", ""
        )
    return own_timeline(answer)


def _row(answer: Answer, chosen: Chosen) -> Row:
    assert chosen.schedule is not None
    rows = rows_named(answer, chosen.schedule, chosen.placement)
    if len(rows) == 1:
        return rows[0]
    if rows:
        placements = ", ".join(row["placement"] for row in rows)
        raise InvalidRequest.of(
            "placement", "is missing: there are several.", f"Name one of {placements}."
        )
    names = dict.fromkeys([OWN, *(row["name"] for row in answer.get("comparison", ()))])
    raise NoTimeline.of(
        "schedule",
        "The answer compares with no such schedule in such a placement.",
        f"Names are {', '.join(names)}, with the placements that `comparison` has.",
    )
