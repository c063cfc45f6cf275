"""Solves as submitting and reading see them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.orm import InstrumentedAttribute, Session, undefer

from app.models import ANSWERED, IN_FLIGHT, Solve, SolveState


@dataclass(frozen=True)
class Neighbour:
    """A solve of the same shape that has a plan, and its profile as JSON text."""

    solve_id: str
    profile: str


class SolveRepository:
    """Queries and writes of the table `solves` that need no worker's lease."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def reusable(self, spec_hash: str, engine: str | None, scope: str) -> Sequence[Solve]:
        """Solves that may answer this spec, by one engine or (None) by any."""
        statement = select(Solve).where(
            Solve.spec_hash == spec_hash,
            Solve.scope == scope,
            Solve.reusable,
            Solve.state.in_((*IN_FLIGHT, *ANSWERED)),
        )
        if engine is not None:
            statement = statement.where(Solve.engine == engine)
        return self._session.scalars(statement).all()

    def settled(
        self, problem_hash: str, engine: str | None, mip_gap: float, scope: str
    ) -> Solve | None:
        """The best answer of this problem that more time could not improve by more than the gap.

        By one engine or (None) by any; that nothing fits is the same whatever the engine.
        """
        statement = (
            select(Solve)
            .where(
                Solve.problem_hash == problem_hash,
                Solve.scope == scope,
                Solve.reusable,
                _is_settled(mip_gap),
            )
            .order_by(Solve.proven_optimal.desc(), Solve.best_objective, Solve.created_at, Solve.id)
            .limit(1)
        )
        if engine is not None:
            statement = statement.where(
                or_(Solve.engine == engine, Solve.state == SolveState.INFEASIBLE)
            )
        return self._session.scalars(statement).one_or_none()

    def best_plan(self, problem_hash: str, tenant: str) -> str | None:
        """The solve made for this tenant with the best plan of this problem, in whatever state it
        is or ended."""
        statement = (
            select(Solve.id)
            .where(
                Solve.problem_hash == problem_hash,
                Solve.tenant == tenant,
                Solve.incumbent.is_not(None),
            )
            .order_by(Solve.best_objective, Solve.created_at, Solve.id)
            .limit(1)
        )
        return self._session.scalars(statement).one_or_none()

    def neighbours(self, shape_hash: str, tenant: str, limit: int) -> list[Neighbour]:
        """The newest solves of this shape, made for this tenant, that have a plan, newest first."""
        statement = (
            select(Solve.id, Solve.profile)
            .where(
                Solve.shape_hash == shape_hash,
                Solve.tenant == tenant,
                Solve.incumbent.is_not(None),
            )
            .order_by(Solve.created_at.desc(), Solve.id.desc())
            .limit(limit)
        )
        rows = self._session.execute(statement)
        return [Neighbour(solve_id, profile) for solve_id, profile in rows if profile is not None]

    def lock_reusable(self, solve_id: str) -> Solve | None:
        """The solve if it may still be reused; it cannot be cancelled until this commits."""
        statement = (
            select(Solve)
            .where(Solve.id == solve_id, Solve.reusable, Solve.state.in_((*IN_FLIGHT, *ANSWERED)))
            .with_for_update()
            .execution_options(populate_existing=True)
        )
        return self._session.scalars(statement).one_or_none()

    def lock(self, solve_id: str, *columns: InstrumentedAttribute[Any]) -> Solve:
        """The solve, which nobody else changes until this commits, with these large columns."""
        statement = (
            select(Solve)
            .where(Solve.id == solve_id)
            .options(*(undefer(column) for column in columns))
            .with_for_update()
            .execution_options(populate_existing=True)
        )
        return self._session.scalars(statement).one()

    def insert_unless_known(self, **values: Any) -> Solve | None:
        """A new queued solve, or None if another transaction has just made an equal one."""
        dialect = self._session.get_bind().dialect.name
        insert = postgresql_insert if dialect == "postgresql" else sqlite_insert
        statement = (
            insert(Solve)
            .values(id=str(uuid.uuid4()), **values)
            .on_conflict_do_nothing()
            .returning(Solve)
        )
        return self._session.scalars(statement).one_or_none()

    def retire(self, solve_ids: Sequence[str]) -> None:
        """No later request is answered by these solves."""
        if not solve_ids:
            return
        self._session.execute(
            update(Solve)
            .where(Solve.id.in_(solve_ids), Solve.reusable)
            .values(reusable=False)
            .execution_options(synchronize_session=False)
        )

    def document(self, solve_id: str, column: InstrumentedAttribute[Any]) -> str | None:
        """One of the large JSON columns, as text."""
        text: str | None = self._session.scalar(select(column).where(Solve.id == solve_id))
        return text

    def raise_priority(self, solve: Solve, priority: int) -> None:
        """A more urgent job joined: send the queued solve again with its new priority."""
        if priority > solve.priority and solve.state == SolveState.QUEUED:
            solve.priority = priority
            solve.dispatched_at = None


def queue_position_query() -> Select[int]:
    """A scalar query, correlated to `solves`: 1 + how many queued solves come before it."""
    ahead = Solve.__table__.alias("ahead")
    before = or_(
        ahead.c.priority > Solve.priority,
        (ahead.c.priority == Solve.priority)
        & (
            (ahead.c.created_at < Solve.created_at)
            | ((ahead.c.created_at == Solve.created_at) & (ahead.c.id < Solve.id))
        ),
    )
    return select(func.count() + 1).where(
        ahead.c.state == SolveState.QUEUED, ahead.c.tenant == Solve.tenant, before
    )


def _is_settled(mip_gap: float) -> ColumnElement[bool]:
    """Whether a solve's answer holds for every request of its problem that asks for this gap."""
    within_gap = Solve.lower_bound >= Solve.best_objective * (1.0 - mip_gap)
    good_enough = or_(Solve.proven_optimal, within_gap) if mip_gap > 0 else Solve.proven_optimal
    return or_(
        Solve.state == SolveState.INFEASIBLE, and_(Solve.state == SolveState.SUCCEEDED, good_enough)
    )
