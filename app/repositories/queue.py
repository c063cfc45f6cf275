"""What dispatching and the sweep ask of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import case, or_, select, update
from sqlalchemy.orm import Session

from app.database import clock_ms, milliseconds
from app.models import Solve, SolveState
from app.repositories.leases import Fence
from app.repositories.running_limits import Rooms, Seats


@dataclass(frozen=True)
class Dispatch:
    """A solve whose id has to be sent; `dispatched_at` is what the row says so far."""

    solve_id: str
    queue: str
    priority: int
    dispatched_at: int | None


MOST_PATIENCE_S = 600
DISPATCH = (Solve.id, Solve.queue, Solve.priority, Solve.dispatched_at)
QUEUED_AT = case((Solve.not_before > Solve.created_at, Solve.not_before), else_=Solve.created_at)
FIRST_IN_LINE = (Solve.priority.desc(), Solve.created_at, Solve.id)


class QueueRepository:
    """Queued solves that have to be sent, and running ones whose lease lapsed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def unsent(self, limit: int, rooms: Rooms) -> list[Dispatch]:
        """Queued solves never sent, or sent back, that may be sent by now, first in line first.

        Where there are limits, no more than there is room for.
        """
        statement = (
            select(Solve.tenant, *DISPATCH)
            .where(
                Solve.state == SolveState.QUEUED,
                Solve.dispatched_at.is_(None),
                Solve.not_before <= clock_ms(),
                *rooms.excluded(),
            )
            .order_by(*FIRST_IN_LINE)
            .limit(limit)
        )
        seats = Seats(rooms)
        waiting = [(row[0], Dispatch(*row[1:])) for row in self._session.execute(statement)]
        return [dispatch for tenant, dispatch in waiting if seats.take(tenant, dispatch.queue)]

    def unclaimed(
        self, queue: str, head: int, resend_after_s: float, rooms: Rooms
    ) -> list[Dispatch]:
        """Those of the first `head` solves of a queue that were sent long ago.

        Only the head of the line: behind it, waiting is what a queued solve is expected to do.
        And more and more rarely, since where nobody takes from a queue, sending again and again
        would only fill the broker: whenever the wait since it was queued last has doubled, or
        `MOST_PATIENCE_S` is over.
        """
        first = (
            select(*DISPATCH, QUEUED_AT.label("queued_at"))
            .where(
                Solve.state == SolveState.QUEUED,
                Solve.queue == queue,
                Solve.not_before <= clock_ms(),
                *rooms.excluded(),
            )
            .order_by(*FIRST_IN_LINE)
            .limit(head)
            .subquery()
        )
        sent_at = first.c.dispatched_at
        silence_ms = clock_ms() - sent_at
        statement = select(first).where(
            silence_ms > milliseconds(resend_after_s),
            or_(
                silence_ms > sent_at - first.c.queued_at,
                silence_ms > milliseconds(MOST_PATIENCE_S),
            ),
        )
        return [Dispatch(*row[:-1]) for row in self._session.execute(statement)]

    def place(self, solve_id: str) -> tuple[str, str] | None:
        """Tenant and queue of a solve that is queued; None if it is not."""
        statement = select(Solve.tenant, Solve.queue).where(
            Solve.id == solve_id, Solve.state == SolveState.QUEUED
        )
        row = self._session.execute(statement).one_or_none()
        return None if row is None else (row[0], row[1])

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
