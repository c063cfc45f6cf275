"""Which runs are to be looked at, and who does it."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    Table,
    and_,
    exists,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session, aliased

from app.database import clock_ms, json_part, json_picked
from app.models import IN_FLIGHT, Job, Run, RunStatus, RunVersion, Solve
from app.repositories.job_rows import JOB_STATE

OTHERS_WAIT_MS = 5_000
"""How much later than whoever looked last, and has the run in memory, others look at it."""

_RUNS = cast(Table, Run.__table__)


class DueRun(NamedTuple):
    """A run to be looked at; `look_after` is what its claim is compared with."""

    id: str
    look_after: int


class Ended(NamedTuple):
    """How the job of a solve ended, as JSON text what there is of its answer."""

    state: str
    replacement: str | None
    makespan_ns: str | None
    memory_safe: str | None
    memory_safety: str | None
    shortage: str | None
    lower_bound: int | None
    error: str | None


def _solve_in_flight() -> ColumnElement[bool]:
    return exists().where(
        Job.id == _RUNS.c.job_id, Job.solve_id == Solve.id, JOB_STATE.in_(IN_FLIGHT)
    )


def _due(keeper: str) -> Select[str, int]:
    has_news = _RUNS.c.news > _RUNS.c.looked
    solve_ended = and_(_RUNS.c.job_id.is_not(None), ~_solve_in_flight())
    is_ours = or_(_RUNS.c.keeper.is_(None), _RUNS.c.keeper == keeper)
    now = clock_ms()
    return select(_RUNS.c.id, _RUNS.c.look_after).where(
        _RUNS.c.state == RunStatus.ACTIVE,
        or_(
            and_(is_ours, _RUNS.c.look_after <= now),
            _RUNS.c.look_after <= now - OTHERS_WAIT_MS,
        ),
        or_(has_news, solve_ended),
    )


class RunLooks:
    """Queries and claims of one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def due(self, keeper: str, limit: int) -> list[DueRun]:
        """Runs with news, or whose solve has ended, those first that have waited longest."""
        statement = _due(keeper).order_by(_RUNS.c.look_after, _RUNS.c.id).limit(limit)
        return [DueRun(*row) for row in self._session.execute(statement)]

    def claim(self, due: DueRun, lease_ms: int) -> bool:
        """Whether the look is the caller's to make, who has this long for it."""
        statement: Any = (
            update(_RUNS)
            .where(_RUNS.c.id == due.id, _RUNS.c.look_after == due.look_after)
            .values(look_after=clock_ms() + lease_ms)
        )
        claimed: Any = self._session.execute(statement)
        return bool(claimed.rowcount)

    def put_off(self, run_id: str, by_ms: int) -> None:
        """Look at it later: it could not be looked at."""
        self._session.execute(
            update(_RUNS).where(_RUNS.c.id == run_id).values(look_after=clock_ms() + by_ms)
        )

    def ended(self, tenant: str, job_id: str) -> Ended | None:
        """How a job ended; None while it has not. One that is gone counts as cancelled."""
        statement = (
            select(
                JOB_STATE,
                json_part(Solve.result, "replacement"),
                json_part(Solve.result, "schedule", "makespan_ns"),
                json_part(Solve.result, "certificate", "memory_safe_under_jitter"),
                json_part(Solve.result, "certificate", "memory_safety"),
                json_part(Solve.result, "infeasibility", "summary"),
                Solve.lower_bound,
                Solve.error,
            )
            .join_from(Job, Solve, Job.solve_id == Solve.id)
            .where(Job.id == job_id, Job.tenant == tenant)
        )
        row = self._session.execute(statement).one_or_none()
        if row is None:
            return Ended("cancelled", *[None] * 7)
        return None if row[0] in IN_FLIGHT else Ended(*row)

    def answer_part(self, tenant: str, job_id: str, part: str) -> str | None:
        """A part of the answer that a job got, as JSON text."""
        statement = (
            select(json_part(Solve.result, part))
            .join_from(Job, Solve, Job.solve_id == Solve.id)
            .where(Job.id == job_id, Job.tenant == tenant)
        )
        return self._session.execute(statement).scalar_one_or_none()


def answer_of(job_id: str) -> ScalarSelect[str]:
    """Problem and schedule of the answer that a job got, as an expression: they may have megabytes,
    and go from table to table without being read."""
    return (
        select(json_picked(Solve.result, "problem", "schedule"))
        .join_from(Job, Solve, Job.solve_id == Solve.id)
        .where(Job.id == job_id)
        .scalar_subquery()
    )


def document_of(run_id: str, version: int) -> ScalarSelect[str | None]:
    """Problem and schedule of a version, in the same way."""
    of = aliased(RunVersion)
    return select(of.document).where(of.run_id == run_id, of.version == version).scalar_subquery()
