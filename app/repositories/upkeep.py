"""What `loadmaster db check` asks of the database itself and of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, exists, inspect, select, text
from sqlalchemy.orm import Session, undefer

from app.database import clock_ms
from app.models import (
    ANSWERED,
    PARTS_OF_RUNS,
    BatchJob,
    Job,
    Run,
    Solve,
    SolveState,
    Webhook,
)

ROWS_AT_ONCE = 50
POSTGRES_CHECKS = (
    ("constraint {} is not validated", "SELECT conname FROM pg_constraint WHERE NOT convalidated"),
    (
        "index {} is not valid; run REINDEX INDEX",
        "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid WHERE NOT indisvalid",
    ),
)


@dataclass(frozen=True)
class StoredAnswer:
    """The result of a solve as it is stored."""

    solve_id: str
    state: SolveState
    result: str | None


class UpkeepRepository:
    """Queries over whole tables, for people who wait for them."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def revision(self) -> str | None:
        """The revision of the schema; None where there is no schema."""
        if not inspect(self._session.connection()).has_table("alembic_version"):
            return None
        found: str | None = self._session.scalar(text("SELECT version_num FROM alembic_version"))
        return found

    def faults(self) -> list[str]:
        """What the database says is wrong with itself."""
        if self._session.get_bind().dialect.name == "sqlite":
            found = [row[0] for row in self._rows("PRAGMA integrity_check") if row[0] != "ok"]
            return found + [
                f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is not there"
                for row in self._rows("PRAGMA foreign_key_check")
            ]
        return [
            words.format(row[0]) for words, query in POSTGRES_CHECKS for row in self._rows(query)
        ]

    def abandoned(self, age_ms: int) -> Sequence[str]:
        """Running solves whose lease lapsed so long ago that a sweep should have seen it."""
        return self._solves(
            Solve.state == SolveState.RUNNING, Solve.lease_until < clock_ms() - age_ms
        )

    def orphans(self) -> list[str]:
        """Rows that refer to something that is not there."""
        found: list[str] = []
        references: list[tuple[Any, Any, Any]] = [
            (Job, Job.solve_id, Solve),
            (Webhook, Webhook.job_id, Job),
            (BatchJob, BatchJob.job_id, Job),
            *((table, table.run_id, Run) for table in PARTS_OF_RUNS),
        ]
        for table, reference, target in references:
            missing = select(reference).where(~exists().where(target.id == reference)).distinct()
            found += [
                f"{table.__tablename__} refer to {target.__tablename__[:-1]} {gone}, which is gone"
                for gone in self._session.scalars(missing)
            ]
        return found

    def answers(self) -> Iterator[StoredAnswer]:
        """Every stored answer; few at a time, since results are large."""
        after = ""
        while True:
            statement = (
                select(Solve)
                .where(Solve.id > after, Solve.state.in_(ANSWERED))
                .options(undefer(Solve.result))
                .order_by(Solve.id)
                .limit(ROWS_AT_ONCE)
            )
            solves = self._session.scalars(statement).all()
            if not solves:
                return
            for solve in solves:
                yield StoredAnswer(solve.id, SolveState(solve.state), solve.result)
            after = solves[-1].id
            self._session.expunge_all()

    def _solves(self, *conditions: ColumnElement[bool]) -> Sequence[str]:
        return self._session.scalars(select(Solve.id).where(*conditions)).all()

    def _rows(self, query: str) -> Sequence[Any]:
        return self._session.execute(text(query)).all()
