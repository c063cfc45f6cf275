"""What dispatching and the sweep ask of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from app.database import clock_ms, milliseconds
from app.models import Solve, SolveState
from app.repositories.leases import Fence


@dataclass(frozen=True)
class Dispatch:
    """A solve whose id has to be sent; `dispatched_at` is what the row says so far."""

    solve_id: str
    priority: int
    dispatched_at: int | None


class QueueRepository:
    """Queued solves that have to be sent, and running ones whose lease lapsed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def unsent(self, limit: int) -> list[Dispatch]:
        """Queued solves never sent, or sent back, that may be sent by now, first in line first."""
        statement = (
            select(Solve.id, Solve.priority, Solve.dispatched_at)
            .where(
                Solve.state == SolveState.QUEUED,
                Solve.dispatched_at.is_(None),
                Solve.not_before <= clock_ms(),
            )
            .order_by(Solve.priority.desc(), Solve.created_at, Solve.id)
            .limit(limit)
        )
        return [Dispatch(*row) for row in self._session.execute(statement)]

    def unclaimed(self, head: int, resend_after_s: float) -> list[Dispatch]:
        """Those of the first `head` queued solves that were sent long ago.

        Only the head of the line: behind it, waiting is what a queued solve is expected to do,
        and sending it again and again would only fill the broker.
        """
        first = (
            select(Solve.id, Solve.priority, Solve.dispatched_at)
            .where(Solve.state == SolveState.QUEUED, Solve.not_before <= clock_ms())
            .order_by(Solve.priority.desc(), Solve.created_at, Solve.id)
            .limit(head)
            .subquery()
        )
        statement = select(first).where(
            first.c.dispatched_at < clock_ms() - milliseconds(resend_after_s)
        )
        return [Dispatch(*row) for row in self._session.execute(statement)]

    def mark_sent(self, dispatch: Dispatch) -> bool:
        """Compare and set; False if somebody else sends it, or it is not queued any more."""
        statement = (
            update(Solve)
            .where(
                Solve.id == dispatch.solve_id,
                Solve.state == SolveState.QUEUED,
                Solve.dispatched_at.is_not_distinct_from(dispatch.dispatched_at),
            )
            .values(dispatched_at=clock_ms())
            .returning(Solve.id)
            .execution_options(synchronize_session=False)
        )
        return self._session.scalars(statement).one_or_none() is not None

    def mark_unsent(self, solve_ids: Sequence[str]) -> None:
        """Sending failed, or the message was not acted on: send again."""
        self._session.execute(
            update(Solve)
            .where(Solve.id.in_(solve_ids), Solve.state == SolveState.QUEUED)
            .values(dispatched_at=None)
            .execution_options(synchronize_session=False)
        )

    def mark_all_unsent(self) -> None:
        """Send every queued solve again."""
        self._session.execute(
            update(Solve)
            .where(Solve.state == SolveState.QUEUED, Solve.dispatched_at.is_not(None))
            .values(dispatched_at=None)
            .execution_options(synchronize_session=False)
        )

    def lapsed(self) -> list[Fence]:
        """Running solves whose lease is over."""
        statement = select(Solve.id, Solve.attempt).where(
            Solve.state == SolveState.RUNNING, Solve.lease_until < clock_ms()
        )
        return [Fence(*row) for row in self._session.execute(statement)]
