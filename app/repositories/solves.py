"""Solves as submitting and reading see them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    ColumnElement,
    Float,
    Select,
    Table,
    and_,
    bindparam,
    func,
    literal_column,
    or_,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.orm import InstrumentedAttribute, Session, undefer

from app.database import clock_ms, insert_or_not
from app.models import REUSABLE_CONDITION, Solve, SolveState
from app.repositories.tenants import scope_query


@dataclass(frozen=True)
class Neighbour:
    """A solve of the same shape that has a plan, and its profile as JSON text."""

    solve_id: str
    profile: str


class Candidate(NamedTuple):
    """What decides whether a solve may answer a request."""

    id: str
    spec_hash: str
    problem_hash: str | None
    engine: str
    solver_version: str
    state: str
    created_at: int
    best_objective: int | None
    lower_bound: int | None
    proven_optimal: bool


@dataclass(frozen=True)
class Candidates:
    """Solves that may answer: those of one of the specs, by whichever engine, and answers to one of
    the problems that more time could not improve by more than the gap."""

    known: Sequence[Candidate]
    settled: Sequence[Candidate]


class Taken(NamedTuple):
    """A solve that nobody else changes until this transaction commits."""

    id: str
    state: str
    priority: int


# Every request runs these, so they are made once, and of plain columns: mapped objects cost several
# times as much as the queries. The words of the partial index are repeated in them, since SQLite
# uses it for none but its own.
_ROWS = cast(Table, Solve.__table__)
_MAY_BE_REUSED = text(REUSABLE_CONDITION)


def _candidates(origin: str, *conditions: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    columns = [_ROWS.c[name] for name in Candidate._fields]
    in_scope = _ROWS.c.scope == scope_query(bindparam("tenant"))
    return select(literal_column(f"'{origin}'"), *columns).where(
        in_scope, _MAY_BE_REUSED, *conditions
    )


def _is_settled() -> ColumnElement[bool]:
    """Whether a solve's answer holds for every request of its problem that asks for this gap."""
    within = _ROWS.c.lower_bound >= _ROWS.c.best_objective * bindparam("least_share", type_=Float)
    within_gap = and_(bindparam("mip_gap", type_=Float) > 0, within)
    good_enough = or_(_ROWS.c.proven_optimal, within_gap)
    is_plan = and_(_ROWS.c.state == SolveState.SUCCEEDED, good_enough)
    return or_(_ROWS.c.state == SolveState.INFEASIBLE, is_plan)


_KNOWN = _candidates("spec", _ROWS.c.spec_hash.in_(bindparam("spec_hashes", expanding=True)))
_SETTLED = _candidates(
    "problem",
    _ROWS.c.problem_hash.in_(bindparam("problem_hashes", expanding=True)),
    _is_settled(),
)
_KNOWN_OR_SETTLED = union_all(_KNOWN, _SETTLED)
_LOCKED = (
    select(_ROWS.c.id)
    .where(_ROWS.c.id.in_(bindparam("solve_ids", expanding=True)), _MAY_BE_REUSED)
    # Whoever locks several takes them in this order.
    .order_by(_ROWS.c.id)
    .with_for_update()
)
_TAKE = (
    update(_ROWS)
    .where(_ROWS.c.id.in_(_LOCKED))
    .values(asked_at=clock_ms())
    .returning(_ROWS.c.id, _ROWS.c.state, _ROWS.c.priority)
)
_RAISE = (
    update(_ROWS)
    .where(_ROWS.c.id == bindparam("solve_id"))
    .values(priority=bindparam("new_priority"), dispatched_at=None)
)


class SolveRepository:
    """Queries and writes of the table `solves` that need no worker's lease."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def candidates(
        self,
        tenant: str,
        spec_hashes: Collection[str],
        problem_hashes: Collection[str],
        mip_gap: float,
    ) -> Candidates:
        """The solves that may answer this tenant's requests for these specs, and for these problems
        within a gap."""
        wanted: dict[str, Any] = {"tenant": tenant, "spec_hashes": list(spec_hashes)}
        statement: Any = _KNOWN
        if problem_hashes:
            statement = _KNOWN_OR_SETTLED
            wanted["problem_hashes"] = list(problem_hashes)
            wanted |= {"mip_gap": mip_gap, "least_share": 1.0 - mip_gap}
        found: dict[str, list[Candidate]] = {"spec": [], "problem": []}
        for origin, *row in self._session.connection().execute(statement, wanted):
            found[origin].append(Candidate(*row))
        return Candidates(found["spec"], found["problem"])

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

    def take(self, solve_ids: Collection[str]) -> list[Taken]:
        """Those solves that may still be reused, for which somebody asked just now; none is
        cancelled until this commits."""
        rows = self._session.connection().execute(_TAKE, {"solve_ids": list(solve_ids)})
        return [Taken(*row) for row in rows]

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
        insert = insert_or_not(self._session, Solve)
        inserted = self._session.execute(insert.on_conflict_do_nothing().returning(Solve.id), rows)
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

    def raise_priorities(self, priorities: Mapping[str, int]) -> None:
        """More urgent jobs joined these queued solves: send them again with their new
        priorities."""
        if priorities:
            raised = [
                {"solve_id": solve_id, "new_priority": priority}
                for solve_id, priority in priorities.items()
            ]
            self._session.connection().execute(_RAISE, raised)


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
