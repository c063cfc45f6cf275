"""Solves as submitting and reading see them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.orm import InstrumentedAttribute, Session, undefer

from app.database import clock_ms
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

    def reusable(self, spec_hashes: Collection[str], scope: str) -> Sequence[Solve]:
        """Solves that may answer one of these specs, by whichever engine."""
        statement = select(Solve).where(
            Solve.spec_hash.in_(spec_hashes),
            Solve.scope == scope,
            Solve.reusable,
            Solve.state.in_((*IN_FLIGHT, *ANSWERED)),
        )
        return self._session.scalars(statement).all()

    def settled(
        self, problem_hashes: Collection[str], mip_gap: float, scope: str
    ) -> Sequence[Solve]:
        """Answers of these problems that more time could not improve by more than the gap."""
        statement = select(Solve).where(
            Solve.problem_hash.in_(problem_hashes),
            Solve.scope == scope,
            Solve.reusable,
            _is_settled(mip_gap),
        )
        return self._session.scalars(statement).all()

    def best_plans(self, problem_hashes: Collection[str], tenant: str) -> dict[str, str]:
        """For each problem the solve made for this tenant with the best plan of it, in whatever
        state it is or ended."""
        statement = (
            select(Solve.problem_hash, Solve.id)
            .where(
                Solve.problem_hash.in_(problem_hashes),
                Solve.tenant == tenant,
                Solve.incumbent.is_not(None),
            )
            .order_by(Solve.best_objective.desc(), Solve.created_at.desc(), Solve.id.desc())
        )
        rows = self._session.execute(statement)
        # The best one of a problem comes last, and stays.
        return {problem: solve_id for problem, solve_id in rows if problem is not None}

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

    def lock_reusable(self, solve_ids: Collection[str]) -> Sequence[Solve]:
        """Those solves that may still be reused; none is cancelled until this commits."""
        statement = (
            select(Solve)
            .where(
                Solve.id.in_(solve_ids), Solve.reusable, Solve.state.in_((*IN_FLIGHT, *ANSWERED))
            )
            .order_by(Solve.id)
            .with_for_update()
            .execution_options(populate_existing=True)
        )
        return self._session.scalars(statement).all()

    def mark_asked(self, solve_ids: Collection[str]) -> None:
        """Somebody asked for these just now."""
        self._session.execute(
            update(Solve)
            .where(Solve.id.in_(solve_ids))
            .values(asked_at=clock_ms())
            .execution_options(synchronize_session=False)
        )

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

    def insert_unless_known(self, rows: Sequence[dict[str, Any]]) -> bool:
        """Whether these are new queued solves now. Where another transaction has just made an
        equal one, that row is left out, and this one has to be given up."""
        dialect = self._session.get_bind().dialect.name
        insert = postgresql_insert if dialect == "postgresql" else sqlite_insert
        inserted = self._session.execute(
            insert(Solve).on_conflict_do_nothing().returning(Solve.id), rows
        )
        return len(inserted.all()) == len(rows)

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
