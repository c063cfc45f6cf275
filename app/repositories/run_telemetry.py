"""Storing what runs report: many posts by few statements, since hundreds may come in a second."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from sqlalchemy import (
    Connection,
    Table,
    TextClause,
    bindparam,
    case,
    delete,
    or_,
    select,
    text,
    update,
)

from app.database import clock_ms
from app.models import Run, RunTelemetry

Row = tuple[str, int, int, str]
"""A run, an iteration, a stage and what it measured, as JSON text."""
Key = tuple[str, int, int]


class RunFacts(NamedTuple):
    """What decides whether telemetry of a run is taken, and what ranks are told with each post."""

    id: str
    tenant: str
    state: str
    stages: int
    kept_iterations: int
    newest_iteration: int | None
    newest_version: int | None
    newest_state: str | None
    apply_at_iteration: int | None
    running_version: int | None


class Reported(NamedTuple):
    """What a transaction stored of a run: its newest iteration (None while it is not known where
    the run begins), and the lowest one stored."""

    run_id: str
    newest_iteration: int | None
    changed_from: int


_RUNS = cast(Table, Run.__table__)
_FACTS = (
    select(*(_RUNS.c[name] for name in RunFacts._fields))
    .where(_RUNS.c.id.in_(bindparam("run_ids", expanding=True)))
    # Nobody removes them until this commits; whoever locks several takes them in this order.
    .order_by(_RUNS.c.id)
    .with_for_update(read=True, key_share=True)
)
# All rows as one document: a statement with thousands of parameters takes longer to send and to
# prepare than this takes to read.
_INSERT_ON_SQLITE = text(
    "INSERT INTO run_telemetry (run_id, iteration, stage, measures) "
    "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), "
    "json_extract(value, '$[3]') FROM json_each(:rows) WHERE true "
    "ON CONFLICT DO NOTHING RETURNING run_id, iteration, stage"
)
_INSERT_ON_POSTGRESQL = text(
    "INSERT INTO run_telemetry (run_id, iteration, stage, measures) "
    "SELECT value ->> 0, (value ->> 1)::bigint, (value ->> 2)::integer, value ->> 3 "
    "FROM json_array_elements(CAST(:rows AS json)) "
    "ON CONFLICT DO NOTHING RETURNING run_id, iteration, stage"
)
_NOTE = (
    update(_RUNS)
    .where(_RUNS.c.id == bindparam("run"))
    .values(
        newest_iteration=case(
            (
                or_(
                    _RUNS.c.newest_iteration.is_(None),
                    _RUNS.c.newest_iteration < bindparam("newest"),
                ),
                bindparam("newest"),
            ),
            else_=_RUNS.c.newest_iteration,
        ),
        changed_from=case(
            (
                or_(_RUNS.c.changed_from.is_(None), _RUNS.c.changed_from > bindparam("changed")),
                bindparam("changed"),
            ),
            else_=_RUNS.c.changed_from,
        ),
        telemetry_at=clock_ms(),
        news=_RUNS.c.news + 1,
    )
)
_WINDOW = (
    select(RunTelemetry.iteration, RunTelemetry.stage, RunTelemetry.measures)
    .where(
        RunTelemetry.run_id == bindparam("run_id"),
        RunTelemetry.iteration >= bindparam("first"),
    )
    .order_by(RunTelemetry.iteration, RunTelemetry.stage)
)

_ITERATIONS = (
    select(RunTelemetry.stage, RunTelemetry.iteration)
    .where(
        RunTelemetry.run_id == bindparam("run_id"),
        RunTelemetry.iteration > bindparam("after"),
    )
    .order_by(RunTelemetry.iteration)
)


class TelemetryRepository:
    """Queries and writes of the table `run_telemetry`, and of what `runs` has of it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def hold(self, run_ids: Collection[str]) -> Mapping[str, RunFacts]:
        """Those of these runs that there are, whoever's they are; none is removed until this
        commits."""
        rows = self._connection.execute(_FACTS, {"run_ids": list(run_ids)})
        return {row[0]: RunFacts(*row) for row in rows}

    def insert(self, rows: Sequence[Row]) -> set[Key]:
        """Store what is not there yet; the keys of what was stored."""
        statement = self._insert()
        # In the order of the key, so that two of these never wait for each other.
        document = json.dumps(sorted(rows, key=lambda row: row[:3]), separators=(",", ":"))
        stored = self._connection.execute(statement, {"rows": document})
        return {(run_id, iteration, stage) for run_id, iteration, stage in stored}

    def note(self, reported: Sequence[Reported]) -> None:
        """These runs have news."""
        if reported:
            self._connection.execute(
                _NOTE,
                [
                    {"run": one.run_id, "newest": one.newest_iteration, "changed": one.changed_from}
                    for one in sorted(reported)
                ],
            )

    def window(self, run_id: str, first: int) -> Sequence[tuple[int, int, str]]:
        """Iteration, stage and measures of a run from an iteration on, in that order."""
        rows = self._connection.execute(_WINDOW, {"run_id": run_id, "first": first})
        return [(iteration, stage, measures) for iteration, stage, measures in rows]

    def by_stage(self, run_id: str, after: int) -> Mapping[int, Sequence[int]]:
        """By stage the iterations after this one that it has reported, in order."""
        rows = self._connection.execute(_ITERATIONS, {"run_id": run_id, "after": after})
        found: dict[int, list[int]] = defaultdict(list)
        for stage, iteration in rows:
            found[stage].append(iteration)
        return found

    def remove(self, run_id: str, iterations: Collection[int]) -> None:
        """Delete a run's telemetry of these iterations."""
        if iterations:
            of_these = RunTelemetry.iteration.in_(iterations)
            self._connection.execute(
                delete(RunTelemetry).where(RunTelemetry.run_id == run_id, of_these)
            )

    def prune(self, run_id: str, before: int) -> int:
        """Delete a run's telemetry of iterations before this one; how many rows there were."""
        statement: Any = delete(RunTelemetry).where(
            RunTelemetry.run_id == run_id, RunTelemetry.iteration < before
        )
        return int(self._connection.execute(statement).rowcount)

    def _insert(self) -> TextClause:
        is_sqlite = self._connection.dialect.name == "sqlite"
        return _INSERT_ON_SQLITE if is_sqlite else _INSERT_ON_POSTGRESQL
