"""Solves of a run on its fresh profile: ordinary jobs that start from the running plan."""

from __future__ import annotations

from typing import Any

from app.database import Database
from app.repositories.run_rows import RunReader, RunRow
from app.services.limits import ResolvedPipeline
from app.services.plan_requests import PlanRequests
from app.services.resolutions import json_text
from app.services.runs.naming import job_name, tag_of
from app.services.runs.stored import stored_request
from app.services.submission import Prepared, Submission
from planner.following.look import SolveWanted
from planner.pipeline.documents import problem_to_document
from planner.pipeline.names import StartKind
from planner.pipeline.spec import AS_POSTED

OF_ONE_SOLVE = ("time_limit_s", "search_iterations", "offload_time_factor")
"""What a request's `solver` has for the first solve only: the time is the run's own, and times of
offloads are measured, or scaled in the problem already."""


class Solves:
    """Prepares the jobs of solves that a look asks for, none longer than `most_time_s`."""

    def __init__(
        self,
        database: Database,
        submission: Submission,
        pipelines: PlanRequests[ResolvedPipeline],
        most_time_s: float,
    ) -> None:
        self._database = database
        self._most_time_s = most_time_s
        self._submission = submission
        self._pipelines = pipelines

    def prepare(self, row: RunRow, wanted: SolveWanted) -> Prepared:
        """The job of a solve; whether the tenant may queue it is seen when it is made."""
        with self._database.reading() as session:
            reader = RunReader(session.connection())
            request = stored_request(reader, row.id)
            schedule = None
            if wanted.start_version is not None:
                schedule = reader.version_part(row.id, wanted.start_version, "schedule")
        solver = {
            name: value
            for name, value in request.get("solver", {}).items()
            if name not in OF_ONE_SOLVE
        }
        time_limit_s = min(wanted.time_limit_s, self._most_time_s)
        body = {
            "problem": problem_to_document(wanted.problem),
            "solver": {**solver, **wanted.solver, "time_limit_s": time_limit_s},
            "name": job_name(row.name, row.newest_iteration),
            "tags": [*request.get("tags", ()), tag_of(row.id)],
        }
        return self._submission.prepare(
            row.tenant,
            self._pipelines.read(row.tenant, body),
            fresh=True,
            started_from=None if schedule is None else _start(row.id, wanted, schedule),
        )


def _start(run_id: str, wanted: SolveWanted, schedule: str) -> str:
    """Where the solve starts, as JSON text; the schedule may have megabytes, and goes on as it
    is."""
    origin: dict[str, Any] = {
        "kind": StartKind.RUNNING_PLAN,
        "run_id": run_id,
        "version": wanted.start_version,
        "noise": list(wanted.noise),
    }
    head = json_text({"placement": AS_POSTED, "found_by": "running plan", "origin": origin})
    return f'{head[:-1]},"schedule":{schedule}}}'
