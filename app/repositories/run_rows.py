"""Runs as clients and the keeper see them, read without the ORM and without their documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, cast

from sqlalchemy import Connection, ScalarSelect, Table, bindparam, func, select, tuple_

from app.database import json_part
from app.models import Run, RunAck, RunDocument, RunEvent, RunStatus, RunVersion


class RunRow(NamedTuple):
    """A row of `runs`."""

    id: str
    tenant: str
    name: str | None
    state: str
    created_at: int
    stopped_at: int | None
    model: str | None
    stages: int
    ranks: int
    revision: int
    news: int
    looked: int
    look_after: int
    keeper: str | None
    newest_iteration: int | None
    changed_from: int | None
    telemetry_at: int | None
    job_id: str | None
    newest_version: int | None
    newest_state: str | None
    apply_at_iteration: int | None
    running_version: int | None
    predicted_gain: float | None
    measured_gain: float | None
    plan_changed_at: int

    @property
    def is_active(self) -> bool:
        """Whether it is followed."""
        return self.state == RunStatus.ACTIVE


class VersionRow(NamedTuple):
    """A row of `run_versions` without its document."""

    version: int
    state: str
    reason: str
    created_at: int
    published_at_iteration: int | None
    apply_at_iteration: int | None
    needs_restart: bool
    copy_of: int | None
    predicted_gain: float | None
    gain_low: float | None
    measured_gain: float | None
    makespan_ns: int | None
    job_id: str | None


class EventRow(NamedTuple):
    """A row of `run_events`."""

    seq: int
    at: int
    iteration: int | None
    kind: str
    detail: str


_RUNS = cast(Table, Run.__table__)
_SELECTED = select(*(_RUNS.c[name] for name in RunRow._fields))
_ONE = _SELECTED.where(_RUNS.c.id == bindparam("run_id"), _RUNS.c.tenant == bindparam("tenant"))
_SOME = _SELECTED.where(_RUNS.c.id.in_(bindparam("run_ids", expanding=True)))
_VERSIONS = select(*(getattr(RunVersion, name) for name in VersionRow._fields)).where(
    RunVersion.run_id == bindparam("run_id")
)
_VERSION = _VERSIONS.where(RunVersion.version == bindparam("version"))


def _ranks_of(run_id: str) -> ScalarSelect[int]:
    """How many ranks the run has by now: those beyond may have acknowledged before a change."""
    return select(Run.ranks).where(Run.id == run_id).scalar_subquery()


class RunReader:
    """Queries of runs and of what is theirs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def one(self, tenant: str, run_id: str) -> RunRow | None:
        """The run, if it is this tenant's."""
        row = self._connection.execute(_ONE, {"run_id": run_id, "tenant": tenant}).one_or_none()
        return None if row is None else RunRow(*row)

    def some(self, run_ids: Collection[str]) -> list[RunRow]:
        """Those of these runs that there are, whoever's they are."""
        rows = self._connection.execute(_SOME, {"run_ids": list(run_ids)})
        return [RunRow(*row) for row in rows]

    def page(
        self, tenant: str, state: RunStatus | None, before: tuple[int, str] | None, limit: int
    ) -> list[RunRow]:
        """This tenant's runs, newest first; `before` is the one that the page follows."""
        statement = _SELECTED.where(_RUNS.c.tenant == tenant)
        if state is not None:
            statement = statement.where(_RUNS.c.state == state.value)
        if before is not None:
            statement = statement.where(tuple_(_RUNS.c.created_at, _RUNS.c.id) < before)
        statement = statement.order_by(_RUNS.c.created_at.desc(), _RUNS.c.id.desc()).limit(limit)
        return [RunRow(*row) for row in self._connection.execute(statement)]

    def active(self, tenant: str) -> int:
        """How many runs of the tenant are followed."""
        statement = select(func.count()).where(
            _RUNS.c.tenant == tenant, _RUNS.c.state == RunStatus.ACTIVE.value
        )
        return self._connection.execute(statement).scalar_one()

    def document(self, run_id: str, name: str) -> str | None:
        """One of the documents of `RunDocument`, as JSON text."""
        statement = select(RunDocument.text).where(
            RunDocument.run_id == run_id, RunDocument.name == name
        )
        return self._connection.execute(statement).scalar_one_or_none()

    def versions(self, run_id: str) -> list[VersionRow]:
        """Every version, newest first."""
        statement = _VERSIONS.order_by(RunVersion.version.desc())
        rows = self._connection.execute(statement, {"run_id": run_id})
        return [VersionRow(*row) for row in rows]

    def version(self, run_id: str, version: int) -> VersionRow | None:
        """One version."""
        wanted = {"run_id": run_id, "version": version}
        row = self._connection.execute(_VERSION, wanted).one_or_none()
        return None if row is None else VersionRow(*row)

    def version_document(self, run_id: str, version: int) -> str | None:
        """Problem and schedule of a version, as JSON text; None where there is none (any more)."""
        statement = select(RunVersion.document).where(
            RunVersion.run_id == run_id, RunVersion.version == version
        )
        return self._connection.execute(statement).scalar_one_or_none()

    def version_part(self, run_id: str, version: int, part: str) -> str | None:
        """The `problem` or the `schedule` of a version, as JSON text."""
        statement = select(json_part(RunVersion.document, part)).where(
            RunVersion.run_id == run_id, RunVersion.version == version
        )
        return self._connection.execute(statement).scalar_one_or_none()

    def acks(self, run_id: str, versions: Collection[int]) -> Mapping[int, Mapping[int, int]]:
        """By version, which of the run's ranks hold it and from which iteration of theirs."""
        statement = select(RunAck.version, RunAck.rank, RunAck.iteration).where(
            RunAck.run_id == run_id, RunAck.version.in_(versions), RunAck.rank < _ranks_of(run_id)
        )
        found: dict[int, dict[int, int]] = defaultdict(dict)
        for version, rank, iteration in self._connection.execute(statement):
            found[version][rank] = iteration
        return found

    def acknowledged(self, run_id: str) -> Mapping[int, int]:
        """By version, how many of the run's ranks hold it."""
        statement = (
            select(RunAck.version, func.count())
            .where(RunAck.run_id == run_id, RunAck.rank < _ranks_of(run_id))
            .group_by(RunAck.version)
        )
        return dict(self._connection.execute(statement).all())

    def events(self, run_id: str, limit: int) -> Sequence[EventRow]:
        """The newest events, newest first."""
        statement = (
            select(*(getattr(RunEvent, name) for name in EventRow._fields))
            .where(RunEvent.run_id == run_id)
            .order_by(RunEvent.seq.desc())
            .limit(limit)
        )
        return [EventRow(*row) for row in self._connection.execute(statement)]
