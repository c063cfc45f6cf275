"""From the body of a run to its rows, and what changes of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.callers import Caller
from app.database import Database
from app.errors import InvalidRequest, LimitExceeded, RunStopped, TooManyRuns
from app.models import Run
from app.repositories.run_rows import RunReader, RunRow
from app.repositories.runs import NewEvent, RunRepository
from app.schemas.requests import read_fields
from app.schemas.runs import RunFields
from app.services.audit import record
from app.services.idempotency import RequestKey
from app.services.limits import ResolvedPipeline
from app.services.plan_requests import PlanRequests
from app.services.resolutions import json_text
from app.services.runs.first_plan import check_fits, with_headroom
from app.services.runs.given_plan import given_document
from app.services.runs.mirror import (
    changed_plan,
    count_versions,
    mirror_versions,
    plan_columns,
    size_columns,
    version_columns,
)
from app.services.runs.naming import job_name, tag_of
from app.services.runs.stored import row_of, stored_request, stored_state
from app.services.submission import (
    MAX_TRIES,
    Made,
    Prepared,
    Submission,
    Wanted,
    always_overtaken,
)
from app.settings import Settings
from planner.following.settings import FollowSettings, read_follow
from planner.following.state import RunState, changed, new_run, same_shape
from planner.following.telemetry import MOST_STAGES
from planner.following.versions import VersionState
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.problem import PipelineProblem

KIND = "run"
DESCRIBED = ("model", "cluster", "training")


@dataclass(frozen=True)
class Posted:
    """A body that was read: the run's own fields, how it is to be followed, the rest, name and tags
    of its first job, and what that resolves to."""

    fields: RunFields
    follow: FollowSettings
    rest: Mapping[str, Any]
    labels: Mapping[str, Any]
    wanted: Wanted
    problems: Sequence[PipelineProblem]

    @property
    def request(self) -> str:
        """What is kept of the body, without the plan, as JSON text."""
        own = {name: getattr(self.fields, name) for name in ("name", "tags")}
        given = {name: value for name, value in own.items() if value}
        return json_text({**given, **self.rest, "follow": self.follow.model_dump()})


class RunRequests:
    """Makes runs and changes them."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        submission: Submission,
        pipelines: PlanRequests[ResolvedPipeline],
    ) -> None:
        self._database = database
        self._settings = settings
        self._submission = submission
        self._pipelines = pipelines

    def preview(self, caller: Caller, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the run's first plan is made for, and how it would be followed."""
        posted = self._read(caller.tenant, body)
        _given_plan(posted)
        preview = self._pipelines.preview(caller, posted.rest)
        return {**preview, "follow": posted.follow.model_dump()}

    def submit(
        self, caller: Caller, body: Mapping[str, Any], *, fresh: bool, idempotency_key: str | None
    ) -> Made:
        """Make the run and the job that plans it first, unless this request has come before."""
        key = RequestKey.of(idempotency_key, kind=KIND, body=body, fresh=fresh)
        made = self._submission.made_before(caller.tenant, key)
        if made is not None:
            return made
        run_id = str(uuid.uuid4())
        posted = self._read(caller.tenant, body, tag_of(run_id))
        given = _given_plan(posted)
        state = new_run(posted.problems[0], posted.follow, given_plan=given is not None)
        prepared: list[Prepared] = []
        events = [NewEvent("created", "The run was made.", None)]
        if given is None:
            check_fits(posted.problems)
            first, no_headroom = self._first_solve(caller.tenant, posted)
            prepared = [self._submission.prepare(caller.tenant, first, fresh=fresh)]
            if no_headroom is not None:
                events.append(NewEvent("no_headroom", no_headroom, None))

        def make(session: Session) -> None:
            self._check_room(session, caller.tenant)
            runs = RunRepository(session)
            columns = {
                "id": run_id,
                "tenant": caller.tenant,
                "name": posted.fields.name,
                "model": posted.wanted.posted.model,
                "job_id": prepared[0].job_id if prepared else None,
                **size_columns(state),
                **plan_columns(state),
            }
            runs.add(columns, documents_of(posted.request, state))
            if prepared:
                self._submission.make(session, caller.tenant, prepared)
            if given is not None:
                document, makespan_ns = given
                own = {**version_columns(state.versions[0]), "makespan_ns": makespan_ns}
                runs.add_version(run_id, {**own, "document": document})
            runs.add_events(run_id, events)

        made = self._submission.once(caller.tenant, key, run_id, make)
        if not made.replayed:
            count_versions(RunState(state.settings, state.base), state)
        return made

    def change(self, caller: Caller, run_id: str, body: Mapping[str, Any]) -> None:
        """Change how the run is followed, what is planned for it, or its name.

        Raises `RunNotFound`, `RunStopped`, `InvalidRequest` or `DatabaseUnavailable`.
        """
        if "plan" in body or "tags" in body:
            field = "plan" if "plan" in body else "tags"
            raise InvalidRequest.of(field, "cannot be changed.", "Begin another run.")

        for _ in range(MAX_TRIES):
            row, posted, before = self._change_of(caller, run_id, body)
            base = before.base
            if body.keys() & {*DESCRIBED, "problem"}:
                check_fits(posted.problems)
                base = _like(base, posted.problems)
            after = changed(before, base, posted.follow, row.newest_iteration)
            _check_ranks(before, after)
            with self._database.writing() as session:
                is_done = self._write_change(session, row, posted, before, after)
                if is_done:
                    record(session, caller, "run changed", run_id, _said(body))
            if is_done:
                count_versions(before, after)
                return
        raise always_overtaken()

    def _change_of(
        self, caller: Caller, run_id: str, body: Mapping[str, Any]
    ) -> tuple[RunRow, Posted, RunState]:
        with self._database.reading() as session:
            reader = RunReader(session.connection())
            row = row_of(reader, caller, run_id)
            if not row.is_active:
                raise RunStopped("The run was stopped, and cannot be changed any more.")
            request = stored_request(reader, run_id)
            before = stored_state(reader, run_id)
        posted = self._read(caller.tenant, merged(request, body))
        return row, posted, before

    def _write_change(
        self, session: Session, row: RunRow, posted: Posted, before: RunState, after: RunState
    ) -> bool:
        runs = RunRepository(session)
        columns = {
            "name": posted.fields.name,
            "news": Run.news + 1,
            "look_after": 0,
            "revision": row.revision + 1,
            **size_columns(after),
        }
        if before.versions != after.versions or before.running != after.running:
            columns |= changed_plan(after)
        if not runs.change(row.id, row.revision, **columns):
            return False
        mirror_versions(runs, row.id, before, after)
        for name, text in documents_of(posted.request, after).items():
            runs.set_document(row.id, name, text)
        runs.add_events(row.id, [NewEvent("changed", "The run was changed.", row.newest_iteration)])
        return True

    def _first_solve(self, tenant: str, posted: Posted) -> tuple[Wanted, str | None]:
        """What makes the first plan: one that leaves the headroom, where there may be one. Else why
        it does not."""
        request, no_headroom = with_headroom(
            posted.rest, posted.problems[0], posted.follow.memory_headroom
        )
        if request is posted.rest:
            return posted.wanted, no_headroom
        return self._pipelines.read(tenant, {**request, **posted.labels}), None

    def _read(self, tenant: str, body: Mapping[str, Any], *tags: str) -> Posted:
        own = {name: value for name, value in body.items() if name in RunFields.model_fields}
        fields = read_fields(RunFields, own)
        given = body.get("follow")
        follow = read_follow({} if given is None else given)
        if follow.solve_time_limit_s > self._settings.max_time_limit_s:
            raise LimitExceeded.of(
                "follow.solve_time_limit_s",
                f"{follow.solve_time_limit_s:g} seconds are too many.",
                f"Give at most {self._settings.max_time_limit_s:g}.",
            )
        rest: Mapping[str, Any] = {
            name: value for name, value in body.items() if name not in own and name != "follow"
        }
        labels = {"name": job_name(fields.name, None), "tags": [*fields.tags, *tags]}
        for name in ("webhook", "priority"):
            if name in rest:
                raise InvalidRequest.of(name, "is not a known field.", "Remove it.")
        # The version that counts now is that of the run, whatever is the latest later on.
        rest = self._pipelines.calibrated(tenant, rest)
        wanted = self._pipelines.read(tenant, {**rest, **labels})
        return Posted(fields, follow, rest, labels, wanted, _problems(wanted))

    def _check_room(self, session: Session, tenant: str) -> None:
        most = self._settings.max_active_runs_per_tenant
        if RunReader(session.connection()).active(tenant) >= most:
            raise TooManyRuns(
                f"At most {most} runs of a tenant may be active; stop one that is over.",
                headers={"Retry-After": "60"},
            )


def _check_ranks(before: RunState, after: RunState) -> None:
    """Ranks that join would not have what the others have been told to switch to."""
    version = after.pending
    if after.ranks == before.ranks or version is None or version.state != VersionState.SCHEDULED:
        return
    raise InvalidRequest.of(
        "follow.ranks",
        f"cannot be changed now: version {version.number} is scheduled, and {before.ranks} ranks "
        f"switch to it at iteration {version.apply_at_iteration}.",
        "Change it once that iteration has been reported.",
    )


def merged(known: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a run after a change: parts as a whole, of `follow` each setting by itself."""
    kept = dict(known)
    if "problem" in change:
        for name in DESCRIBED:
            kept.pop(name, None)
    elif any(name in change for name in DESCRIBED):
        kept.pop("problem", None)
    follow = change.get("follow")
    if isinstance(follow, Mapping):
        change = {**change, "follow": {**kept["follow"], **follow}}
    return {**kept, **change}


def documents_of(request: str, state: RunState) -> dict[str, str]:
    """The documents of a run, as JSON texts."""
    return {
        "request": request,
        "problem": json_text(problem_to_document(state.base)),
        "state": json_text(state.to_document()),
    }


def _given_plan(posted: Posted) -> tuple[str, int] | None:
    """The plan of the body, checked, as `given_document` has it; None where one is to be made."""
    plan = posted.fields.plan
    if plan is None:
        return None
    if len(posted.problems) > 1:
        raise InvalidRequest.of(
            "plan",
            "does not say of which placement of the stages it is.",
            "Post the `problem` that it was made for instead of a model and a cluster.",
        )
    return given_document(posted.problems[0], plan)


def _problems(wanted: Wanted) -> Sequence[PipelineProblem]:
    spec = json.loads(wanted.resolved.columns["spec"])
    problems = [read_problem(own["problem"]) for own in spec["candidates"]]
    if not problems:
        raise InvalidRequest.of(
            "",
            "nothing of this fits into the memory of the devices.",
            "Post it to /v1/pipeline-schedules to see what is missing and what would fit.",
        )
    stages = max(len(problem.stages) for problem in problems)
    if stages > MOST_STAGES:
        raise LimitExceeded.of(
            "problem.stages",
            f"{stages} stages are too many for a run.",
            f"A run may have {MOST_STAGES}.",
        )
    return problems


def _like(base: PipelineProblem, problems: Sequence[PipelineProblem]) -> PipelineProblem:
    """The placement that has the shape of what is followed, or else the first."""
    return next((one for one in problems if same_shape(base, one)), problems[0])


def _said(body: Mapping[str, Any]) -> str:
    return f"Changed: {', '.join(sorted(body))}."
