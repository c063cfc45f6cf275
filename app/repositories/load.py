"""How much there is to do, by a few queries that are cheap however many solves are over."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from app.database import clock_ms
from app.models import IN_FLIGHT, Run, RunStatus, Solve, SolveState


@dataclass(frozen=True)
class Load:
    """Solves by queue, who works on them, and runs that are followed."""

    waiting: dict[str, int] = field(default_factory=dict)
    oldest_age_ms: dict[str, int] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)
    busy_workers: int = 0
    active_runs: int = 0


class LoadRepository:
    """Queries of the solves that wait or run."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def load(self) -> Load:
        """What waits, what runs, and how many workers have something."""
        load = Load(busy_workers=self._busy_workers(), active_runs=self._active_runs())
        statement = (
            select(Solve.state, Solve.queue, func.count(), clock_ms() - func.min(Solve.created_at))
            .where(Solve.state.in_(IN_FLIGHT))
            .group_by(Solve.state, Solve.queue)
        )
        for state, queue, count, age_ms in self._session.execute(statement):
            if state == SolveState.QUEUED:
                load.waiting[queue] = count
                load.oldest_age_ms[queue] = max(0, age_ms)
            else:
                load.running[queue] = count
        return load

    def _active_runs(self) -> int:
        statement = select(func.count()).where(Run.state == RunStatus.ACTIVE)
        return self._session.scalars(statement).one()

    def _busy_workers(self) -> int:
        statement = select(func.count(Solve.worker.distinct())).where(
            Solve.state == SolveState.RUNNING, Solve.lease_until >= clock_ms()
        )
        return self._session.scalars(statement).one()
