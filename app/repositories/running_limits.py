"""How many solves of a tenant, and of the queue `long`, may run at once, and how many do."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from app.models import LONG, Solve, SolveState, Tenant
from app.repositories.locks import lock_until_commit
from app.settings import Settings


@dataclass(frozen=True)
class Rooms:
    """How many more solves may be taken on: of each tenant that is in `of`, of every other tenant
    (`default`), and of the queue `long`. None = any number."""

    default: int | None
    of: dict[str, int]
    long: int | None

    def excluded(self) -> list[ColumnElement[bool]]:
        """Conditions that leave out solves there is no room for, whatever comes before them."""
        full = [tenant for tenant, room in self.of.items() if room <= 0]
        conditions: list[ColumnElement[bool]] = []
        if full:
            conditions.append(Solve.tenant.not_in(full))
        if self.long is not None and self.long <= 0:
            conditions.append(Solve.queue != LONG)
        return conditions


class Seats:
    """Takes room away as solves are chosen."""

    def __init__(self, rooms: Rooms) -> None:
        self._default = rooms.default
        self._of = dict(rooms.of)
        self._long = rooms.long

    def take(self, tenant: str, queue: str) -> bool:
        """Whether there was room for one more of this tenant in this queue."""
        room = self._of.get(tenant, self._default)
        if room is not None and room <= 0:
            return False
        if queue == LONG and self._long is not None:
            if self._long <= 0:
                return False
            self._long -= 1
        if room is not None:
            self._of[tenant] = room - 1
        return True


class RunningLimits:
    """Queries about the limits on running solves."""

    def __init__(self, session: Session, settings: Settings) -> None:
        self._session = session
        self._default = settings.max_running_per_tenant
        self._long = settings.max_running_long

    def has_room(self, tenant: str, queue: str) -> bool:
        """Whether one more solve may run. Until the transaction ends nobody else is told so."""
        if queue == LONG and self._long is not None:
            lock_until_commit(self._session, f"queue {LONG}")
            if self._running(Solve.queue == LONG) >= self._long:
                return False
        own = self._session.scalar(select(Tenant.max_running).where(Tenant.name == tenant))
        limit = self._default if own is None else own
        if limit is None:
            return True
        lock_until_commit(self._session, f"tenant {tenant}")
        return self._running(Solve.tenant == tenant) < limit

    def rooms_to_run(self) -> Rooms:
        """Limits less what runs."""
        return self._rooms(Solve.state == SolveState.RUNNING)

    def rooms_to_send(self) -> Rooms:
        """Limits less what runs and what was sent to be run."""
        sent = (Solve.state == SolveState.QUEUED) & Solve.dispatched_at.is_not(None)
        return self._rooms(or_(Solve.state == SolveState.RUNNING, sent))

    def _running(self, whose: ColumnElement[bool]) -> int:
        counted = select(func.count()).where(whose, Solve.state == SolveState.RUNNING)
        return self._session.scalars(counted).one()

    def _rooms(self, counted: ColumnElement[bool]) -> Rooms:
        own = select(Tenant.name, Tenant.max_running).where(Tenant.max_running.is_not(None))
        limits: dict[str, int] = {name: limit or 0 for name, limit in self._session.execute(own)}
        rooms = dict(limits)
        if limits or self._default is not None:
            counts = select(Solve.tenant, func.count()).where(counted).group_by(Solve.tenant)
            for tenant, count in self._session.execute(counts):
                limit = limits.get(tenant, self._default)
                if limit is not None:
                    rooms[tenant] = limit - count
        long = self._long
        if long is not None:
            taken = select(func.count()).where(counted, Solve.queue == LONG)
            long -= self._session.scalars(taken).one()
        return Rooms(self._default, rooms, long)
