"""Jobs with their solves as clients see them, read without the ORM.

A status poll is the most frequent request by far: its statement is made once, reads only the
columns that are shown, and costs a tenth of the same rows as mapped objects.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    SQLColumnExpression,
    and_,
    bindparam,
    case,
    func,
    select,
    tuple_,
)

from app.database import clock_ms, json_list
from app.models import IN_FLIGHT, Job, JobTag, Solve, SolveEvent, SolveLogLine, SolveState
from app.repositories.solves import queue_position_query

STOPPING: ColumnElement[bool] = and_(Job.stops_solve, Solve.state == SolveState.RUNNING)
JOB_STATE: ColumnElement[str] = case(
    (and_(Job.cancelled_at.is_not(None), ~STOPPING), SolveState.CANCELLED.value),
    else_=Solve.state,
)
# A detached job waits in no queue, whatever its solve does.
WAITING: ColumnElement[bool] = and_(Solve.state == SolveState.QUEUED, Job.cancelled_at.is_(None))


class JobRow(NamedTuple):
    """A job, its solve, and what follows from both. `state` is the job's."""

    id: str
    tenant: str
    name: str | None
    model: str | None
    priority: int
    cache: str
    created_at: int
    cancelled_at: int | None
    stops_solve: bool
    state: str
    stopping: bool
    queue_position: int | None
    solve_id: str
    solve_tenant: str
    solve_state: str
    kind: str
    engine: str
    queue: str
    time_limit_ms: int
    spent_ms: int
    phase: str | None
    best_objective: int | None
    lower_bound: int | None
    proven_optimal: bool
    progress_at: int | None
    heartbeat_at: int | None
    attempts: int
    crashes: int
    losses: int
    started_at: int | None
    solve_finished_at: int | None
    now: int
    tags: tuple[str, ...]

    @property
    def is_over(self) -> bool:
        """Whether nothing follows for the job."""
        return self.state not in IN_FLIGHT

    @property
    def solve_is_over(self) -> bool:
        """Whether nothing follows for its solve, which may go on for other jobs."""
        return self.solve_state not in IN_FLIGHT

    @property
    def left_early(self) -> bool:
        """Whether the job left a solve for which others still waited."""
        return self.cancelled_at is not None and not self.stops_solve

    @property
    def is_of_another_tenant(self) -> bool:
        """Whether the solve was made for somebody else."""
        return self.solve_tenant != self.tenant


_COLUMNS: Mapping[str, SQLColumnExpression[Any]] = {
    "id": Job.id,
    "tenant": Job.tenant,
    "name": Job.name,
    "model": Job.model,
    "priority": Job.priority,
    "cache": Job.cache,
    "created_at": Job.created_at,
    "cancelled_at": Job.cancelled_at,
    "stops_solve": Job.stops_solve,
    "state": JOB_STATE,
    "stopping": STOPPING,
    "queue_position": case((WAITING, queue_position_query().scalar_subquery()), else_=None),
    "solve_id": Job.solve_id,
    "solve_tenant": Solve.tenant,
    "solve_state": Solve.state,
    "kind": Solve.kind,
    "engine": Solve.engine,
    "queue": Solve.queue,
    "time_limit_ms": Solve.time_limit_ms,
    "spent_ms": Solve.spent_ms,
    "phase": Solve.phase,
    "best_objective": Solve.best_objective,
    "lower_bound": Solve.lower_bound,
    "proven_optimal": Solve.proven_optimal,
    "progress_at": Solve.progress_at,
    "heartbeat_at": Solve.heartbeat_at,
    "attempts": Solve.attempt,
    "crashes": Solve.crashes,
    "losses": Solve.losses,
    "started_at": Solve.started_at,
    "solve_finished_at": Solve.finished_at,
    "now": clock_ms(),
    # As JSON text, so that a job is one row whatever tags it has.
    "tags": select(json_list(JobTag.tag)).where(JobTag.job_id == Job.id).scalar_subquery(),
}
# These change with every heartbeat, by the clock alone or never: nobody waits for them.
_NO_NEWS = ("now", "heartbeat_at", "spent_ms", "tags")
_SELECTED: tuple[Any, ...] = tuple(_COLUMNS[name].label(name) for name in JobRow._fields)
_JOBS = select(*_SELECTED).join_from(Job, Solve, Job.solve_id == Solve.id)
_ONE = _JOBS.where(Job.id == bindparam("job_id"), Job.tenant == bindparam("tenant"))
_SOME = _JOBS.where(Job.id.in_(bindparam("job_ids", expanding=True)))
_NEWS = (
    select(func.max(SolveEvent.seq)).where(SolveEvent.solve_id == Solve.id).scalar_subquery(),
    select(func.max(SolveLogLine.seq)).where(SolveLogLine.solve_id == Solve.id).scalar_subquery(),
)
_MARKS: Select[*tuple[Any, ...]] = (
    select(
        Job.id,
        *(column.label(name) for name, column in _COLUMNS.items() if name not in ("id", *_NO_NEWS)),
        *_NEWS,
    )
    .join_from(Job, Solve, Job.solve_id == Solve.id)
    .where(Job.id.in_(bindparam("job_ids", expanding=True)))
)
_REQUEST = select(Job.request).where(Job.id == bindparam("job_id"))
_ONE_WITH_ENDING = _ONE.add_columns(Solve.result, Solve.error)
_ENDING = select(Solve.result, Solve.error).where(Solve.id == bindparam("solve_id"))
_SPEC = select(Solve.spec).where(Solve.id == bindparam("solve_id"))


class Ending(NamedTuple):
    """Result and error of a solve, as JSON text; None of what there is not, or not yet."""

    result: str | None
    error: str | None


@dataclass(frozen=True)
class JobFilter:
    """What a listing is narrowed to; `before` is the (created_at, id) that the page follows.

    `name` and `model` are parts of those, in whatever case (of letters beyond ASCII only as far as
    the database knows them); tags are whole.
    """

    state: SolveState | None = None
    name: str | None = None
    model: str | None = None
    tag: str | None = None
    kind: str | None = None
    before: tuple[int, str] | None = None


class JobReader:
    """Queries of jobs with their solves."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def one(self, tenant: str, job_id: str) -> JobRow | None:
        """The job, if it is this tenant's."""
        row = self._connection.execute(_ONE, {"job_id": job_id, "tenant": tenant}).one_or_none()
        return None if row is None else _job(row)

    def one_with_ending(self, tenant: str, job_id: str) -> tuple[JobRow, Ending] | None:
        """The same with what its solve has ended with."""
        wanted = {"job_id": job_id, "tenant": tenant}
        row = self._connection.execute(_ONE_WITH_ENDING, wanted).one_or_none()
        if row is None:
            return None
        *job, result, error = row
        return _job(job), Ending(result, error)

    def some(self, job_ids: Collection[str]) -> list[JobRow]:
        """Those of these jobs that there are, whoever's they are."""
        rows = self._connection.execute(_SOME, {"job_ids": list(job_ids)})
        return [_job(row) for row in rows]

    def ending(self, solve_id: str) -> Ending:
        """What a solve has ended with."""
        return Ending(*self._connection.execute(_ENDING, {"solve_id": solve_id}).one())

    def request(self, job_id: str) -> str | None:
        """The body that was posted for the job, as JSON text; None if it was not kept."""
        text: str | None = self._connection.scalar(_REQUEST, {"job_id": job_id})
        return text

    def spec(self, solve_id: str) -> str:
        """What a solve was asked to do, as JSON text."""
        return self._connection.execute(_SPEC, {"solve_id": solve_id}).scalar_one()

    def page(self, tenant: str, wanted: JobFilter, limit: int) -> list[JobRow]:
        """This tenant's jobs that match, newest first."""
        statement = (
            _JOBS.where(Job.tenant == tenant, *_conditions(wanted))
            .order_by(Job.created_at.desc(), Job.id.desc())
            .limit(limit)
        )
        return [_job(row) for row in self._connection.execute(statement)]

    def marks(self, job_ids: Collection[str]) -> dict[str, tuple[Any, ...]]:
        """Of each job that there is, something that differs as soon as there are news of it."""
        rows = self._connection.execute(_MARKS, {"job_ids": list(job_ids)})
        return {row[0]: tuple(row) for row in rows}


def _job(row: Sequence[Any]) -> JobRow:
    *columns, tags = row
    return JobRow._make([*columns, () if tags is None else tuple(sorted(json.loads(tags)))])


def _conditions(wanted: JobFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.state is not None:
        conditions.append(JOB_STATE.in_([wanted.state.value]))
    if wanted.name is not None:
        conditions.append(Job.name.icontains(wanted.name, autoescape=True))
    if wanted.model is not None:
        conditions.append(Job.model.icontains(wanted.model, autoescape=True))
    if wanted.kind is not None:
        conditions.append(Solve.kind == wanted.kind)
    if wanted.tag is not None:
        tagged = select(JobTag.job_id).where(JobTag.tag == wanted.tag)
        conditions.append(Job.id.in_(tagged))
    if wanted.before is not None:
        conditions.append(tuple_(Job.created_at, Job.id) < wanted.before)
    return conditions
