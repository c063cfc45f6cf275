"""What is old enough to go. Each query finds a few rows, by an index, without reading results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Select, and_, delete, exists, func, or_, select, tuple_
from sqlalchemy.orm import Session

from app.database import clock_ms
from app.models import (
    IN_FLIGHT,
    OVER,
    AuditEntry,
    DeliveryState,
    Job,
    Run,
    Solve,
    SolveEvent,
    SolveLogLine,
    SolveState,
    Webhook,
)

# Of solves whose log is gone already, the last: the time of its end and its id.
Mark = tuple[int, str]
START: Mark = (0, "")


@dataclass(frozen=True)
class Finished:
    """A solve that is over, and when it ended."""

    solve_id: str
    finished_at: int

    @property
    def mark(self) -> Mark:
        """Where it stands among all that are over."""
        return self.finished_at, self.solve_id


class ExpiryRepository:
    """Queries of what may be removed. Ages are in milliseconds."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def old_jobs(self, age_ms: int, limit: int) -> Sequence[str]:
        """Jobs that have been over for so long, oldest first."""
        return self._session.scalars(old_jobs(age_ms).order_by(Job.created_at).limit(limit)).all()

    def tenants(self) -> Sequence[str]:
        """Everyone who has jobs."""
        return self._session.scalars(select(Job.tenant).distinct()).all()

    def jobs_beyond(self, tenant: str, keep: int, limit: int | None) -> Sequence[str]:
        """Jobs of a tenant that are over and not among its `keep` newest ones, oldest first."""
        newest_to_go = (
            select(Job.created_at, Job.id)
            .where(Job.tenant == tenant)
            .order_by(Job.created_at.desc(), Job.id.desc())
            .offset(keep)
            .limit(1)
        )
        found = self._session.execute(newest_to_go).one_or_none()
        if found is None:
            return []
        statement = (
            _jobs_over(Job.tenant == tenant, tuple_(Job.created_at, Job.id) <= tuple(found))
            .order_by(Job.created_at, Job.id)
            .limit(limit)
        )
        return self._session.scalars(statement).all()

    def lock_jobs(self, job_ids: Sequence[str]) -> Sequence[str]:
        """Those of the jobs that are still there and that nobody else is changing."""
        statement = select(Job.id).where(Job.id.in_(job_ids)).with_for_update(skip_locked=True)
        return self._session.scalars(statement).all()

    def old_logs(self, age_ms: int, after: Mark, limit: int) -> list[Finished]:
        """Solves that have been over for so long, in the order of their ends."""
        statement = (
            select(Solve.id, Solve.finished_at)
            .where(
                Solve.finished_at < clock_ms() - age_ms,
                tuple_(Solve.finished_at, Solve.id) > after,
            )
            .order_by(Solve.finished_at, Solve.id)
            .limit(limit)
        )
        rows = self._session.execute(statement)
        return [Finished(solve_id, at) for solve_id, at in rows if at is not None]

    def unasked_solves(self, age_ms: int, limit: int) -> Sequence[str]:
        """Solves that are over, without a job, and that nobody has asked for in so long."""
        return self._session.scalars(unasked_solves(age_ms).limit(limit)).all()

    def lock_unasked(self, solve_id: str, age_ms: int) -> bool:
        """Whether the solve may still go; if so, nobody attaches a job to it until this commits.

        A request that is being answered by it holds its lock; it is then left for another time.
        """
        locked = select(Solve.id).where(Solve.id == solve_id).with_for_update(skip_locked=True)
        if self._session.scalars(locked).one_or_none() is None:
            return False
        # Only now: what a transaction that held the lock has written is seen by later queries.
        still = unasked_solves(age_ms).where(Solve.id == solve_id)
        return self._session.scalars(still).one_or_none() is not None

    def old_runs(self, age_ms: int, limit: int) -> Sequence[str]:
        """Runs that were stopped so long ago, or have reported nothing for so long."""
        return self._session.scalars(old_runs(age_ms).limit(limit)).all()

    def lock_old_run(self, run_id: str, age_ms: int) -> bool:
        """Whether the run may still go; if so, nobody reports to it until this commits."""
        locked = select(Run.id).where(Run.id == run_id).with_for_update(skip_locked=True)
        if self._session.scalars(locked).one_or_none() is None:
            return False
        # Only now: what a transaction that held the lock has written is seen by later queries.
        still = old_runs(age_ms).where(Run.id == run_id)
        return self._session.scalars(still).one_or_none() is not None

    def remove_audit_entries(self, age_ms: int, limit: int) -> int:
        """Delete the oldest entries if they are so old; returns how many."""
        oldest = (
            select(AuditEntry.id, AuditEntry.at).order_by(AuditEntry.id).limit(limit).subquery()
        )
        old = self._session.scalars(
            select(oldest.c.id).where(oldest.c.at < clock_ms() - age_ms)
        ).all()
        self._session.execute(
            delete(AuditEntry)
            .where(AuditEntry.id.in_(old))
            .execution_options(synchronize_session=False)
        )
        return len(old)

    def count(self, statement: Select[str] | Select[int]) -> int:
        """How many rows a query finds."""
        counted = select(func.count()).select_from(statement.subquery())
        return self._session.scalars(counted).one()


def old_jobs(age_ms: int) -> Select[str]:
    """Jobs that have been over for so long."""
    before = clock_ms() - age_ms
    ended = or_(
        Job.cancelled_at < before, and_(Job.cancelled_at.is_(None), Solve.finished_at < before)
    )
    return _jobs_over(Job.created_at < before, ended)


def old_log_rows(age_ms: int) -> tuple[Select[str], Select[str]]:
    """Log lines and events of solves that have been over for so long."""
    old = Solve.finished_at < clock_ms() - age_ms
    return (
        select(SolveLogLine.solve_id).join(Solve, SolveLogLine.solve_id == Solve.id).where(old),
        select(SolveEvent.solve_id).join(Solve, SolveEvent.solve_id == Solve.id).where(old),
    )


def unasked_solves(age_ms: int) -> Select[str]:
    """Solves that are over, without a job, and that nobody has asked for in so long."""
    return select(Solve.id).where(
        Solve.asked_at < clock_ms() - age_ms,
        # Said so that no index of states is taken for it: one of ages answers this without a row.
        Solve.state.not_in(IN_FLIGHT),
        ~exists().where(Job.solve_id == Solve.id),
    )


def old_runs(age_ms: int) -> Select[str]:
    """Runs that were stopped so long ago, or have reported nothing for so long."""
    last_sign = func.coalesce(Run.stopped_at, Run.telemetry_at, Run.created_at)
    return select(Run.id).where(last_sign < clock_ms() - age_ms)


def old_audit_entries(age_ms: int) -> Select[int]:
    """Entries of the audit log that are so old."""
    return select(AuditEntry.id).where(AuditEntry.at < clock_ms() - age_ms)


def _jobs_over(*conditions: ColumnElement[bool]) -> Select[str]:
    stopping = and_(Job.stops_solve, Solve.state == SolveState.RUNNING)
    over = or_(Solve.state.in_(OVER), and_(Job.cancelled_at.is_not(None), ~stopping))
    untold = exists().where(
        Webhook.job_id == Job.id,
        Webhook.state.in_((DeliveryState.WAITING, DeliveryState.PENDING)),
    )
    return select(Job.id).join(Solve, Job.solve_id == Solve.id).where(*conditions, over, ~untold)
