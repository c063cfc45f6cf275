"""What a worker writes: every statement but the claim is fenced by the attempt number.

A fenced statement changes nothing, and says so, once somebody else has the solve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, undefer

from app.database import clock_ms, milliseconds
from app.models import Solve, SolveState


@dataclass(frozen=True)
class Fence:
    """Proof of a claim: the solve and the number of the attempt."""

    solve_id: str
    attempt: int


class LeaseRepository:
    """Writes of one worker to the solve that it has claimed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def claim(
        self, solve_id: str, *, worker: str, lease_s: float, solver_version: str
    ) -> Fence | None:
        """Take a queued solve; None if it is not queued (any more)."""
        statement = (
            update(Solve)
            .where(Solve.id == solve_id, Solve.state == SolveState.QUEUED)
            .values(
                state=SolveState.RUNNING,
                attempt=Solve.attempt + 1,
                worker=worker,
                lease_until=clock_ms() + milliseconds(lease_s),
                heartbeat_at=clock_ms(),
                started_at=func.coalesce(Solve.started_at, clock_ms()),
                solver_version=solver_version,
                phase=None,
            )
            .returning(Solve.attempt)
            .execution_options(synchronize_session=False)
        )
        attempt = self._session.scalars(statement).one_or_none()
        return None if attempt is None else Fence(solve_id, attempt)

    def renew(self, fence: Fence, lease_s: float, values: dict[str, Any]) -> bool | None:
        """Renew the lease and store progress.

        Returns whether the solve has to stop, or None if the lease is lost.
        """
        statement = (
            update(Solve)
            .where(*_held(fence))
            .values(
                lease_until=clock_ms() + milliseconds(lease_s), heartbeat_at=clock_ms(), **values
            )
            .returning(Solve.stop_requested)
            .execution_options(synchronize_session=False)
        )
        return self._session.scalars(statement).one_or_none()

    def stop_requested(self, fence: Fence) -> bool | None:
        """Whether the solve has to stop; None if the lease is lost."""
        return self._session.scalar(select(Solve.stop_requested).where(*_held(fence)))

    def lock(self, fence: Fence, *columns: Any) -> Solve | None:
        """The claimed solve, unchanged by others until this commits; None if the lease is lost."""
        return self._lock(columns, *_held(fence))

    def lock_lapsed(self, fence: Fence, *columns: Any) -> Solve | None:
        """The same for a solve whose lease is over; None if it was renewed or taken back."""
        return self._lock(columns, *_held(fence), Solve.lease_until < clock_ms())

    def _lock(self, columns: tuple[Any, ...], *conditions: Any) -> Solve | None:
        statement = (
            select(Solve)
            .where(*conditions)
            .options(*(undefer(column) for column in columns))
            .with_for_update()
            .execution_options(populate_existing=True)
        )
        return self._session.scalars(statement).one_or_none()


def _held(fence: Fence) -> tuple[Any, ...]:
    return (
        Solve.id == fence.solve_id,
        Solve.attempt == fence.attempt,
        Solve.state == SolveState.RUNNING,
    )
