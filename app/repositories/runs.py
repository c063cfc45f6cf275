"""Runs as rows of their own: making them, and every change of what they are and have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import Session

from app.database import clock_ms, insert_or_not
from app.models import Run, RunAck, RunDocument, RunEvent, RunStatus, RunVersion

EVENTS_KEPT = 1000
"""Of one run, the newest."""


@dataclass(frozen=True)
class NewEvent:
    """Something that happened to a run, for people."""

    kind: str
    detail: str
    iteration: int | None


class RunRepository:
    """Writes of the tables of runs, except telemetry."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, columns: Mapping[str, Any], documents: Mapping[str, str]) -> None:
        """A new run with its documents."""
        self._session.execute(insert(Run), [dict(columns)])
        for name, text in documents.items():
            self.set_document(columns["id"], name, text)

    def lock(self, tenant: str, run_id: str) -> Run | None:
        """The run, if it is this tenant's; nobody else changes it until this commits."""
        statement = (
            select(Run)
            .where(Run.id == run_id, Run.tenant == tenant)
            .with_for_update()
            .execution_options(populate_existing=True)
        )
        return self._session.scalars(statement).one_or_none()

    def change(self, run_id: str, as_of: int, **columns: Any) -> bool:
        """Change an active run if nobody has since this revision; whether nobody had."""
        statement: Any = (
            update(Run)
            .where(Run.id == run_id, Run.revision == as_of, Run.state == RunStatus.ACTIVE)
            .values(**columns)
            .execution_options(synchronize_session=False)
        )
        changed: Any = self._session.execute(statement)
        return bool(changed.rowcount)

    def set_document(self, run_id: str, name: str, text: str) -> None:
        """The document of this name, whether or not there is one."""
        written = insert_or_not(self._session, RunDocument).values(
            run_id=run_id, name=name, text=text
        )
        self._session.execute(
            written.on_conflict_do_update(index_elements=["run_id", "name"], set_={"text": text})
        )

    def add_version(self, run_id: str, columns: Mapping[str, Any]) -> None:
        """A new version; its `document` may be an expression."""
        self._session.execute(insert(RunVersion).values(run_id=run_id, **columns))

    def change_version(self, run_id: str, version: int, **columns: Any) -> None:
        """Change a version."""
        self._session.execute(
            update(RunVersion)
            .where(RunVersion.run_id == run_id, RunVersion.version == version)
            .values(**columns)
            .execution_options(synchronize_session=False)
        )

    def forget_plans(self, run_id: str, before: int, but: Sequence[int]) -> None:
        """Problem and schedule of versions before this one are not kept, but of these."""
        self._session.execute(
            update(RunVersion)
            .where(
                RunVersion.run_id == run_id,
                RunVersion.version < before,
                RunVersion.version.not_in(but),
                RunVersion.document.is_not(None),
            )
            .values(document=None)
            .execution_options(synchronize_session=False)
        )

    def acknowledge(
        self, run_id: str, version: int, rank: int, iteration: int, *, may_correct: bool
    ) -> bool:
        """A rank holds a version, as of this iteration; whether that is news. An earlier iteration
        takes the place of the one that it gave before only with `may_correct`."""
        written = insert_or_not(self._session, RunAck).values(
            run_id=run_id, version=version, rank=rank, iteration=iteration, at=clock_ms()
        )
        statement = written.on_conflict_do_update(
            index_elements=["run_id", "version", "rank"],
            set_={"iteration": iteration, "at": clock_ms()},
            where=RunAck.iteration != iteration if may_correct else RunAck.iteration < iteration,
        ).returning(RunAck.rank)
        return self._session.scalars(statement).one_or_none() is not None

    def tell(self, run_id: str) -> None:
        """There are news of a run: look at it soon."""
        self._session.execute(
            update(Run)
            .where(Run.id == run_id)
            .values(news=Run.news + 1, look_after=0)
            .execution_options(synchronize_session=False)
        )

    def add_events(self, run_id: str, events: Sequence[NewEvent]) -> None:
        """Events, oldest first; the oldest of the run go where there are too many."""
        if not events:
            return
        last = select(func.max(RunEvent.seq)).where(RunEvent.run_id == run_id)
        known = self._session.scalar(last)
        first = 0 if known is None else known + 1
        self._session.execute(
            insert(RunEvent),
            [
                {
                    "run_id": run_id,
                    "seq": first + offset,
                    "iteration": event.iteration,
                    "kind": event.kind,
                    "detail": event.detail,
                }
                for offset, event in enumerate(events)
            ],
        )
        self._session.execute(
            delete(RunEvent)
            .where(RunEvent.run_id == run_id, RunEvent.seq < first + len(events) - EVENTS_KEPT)
            .execution_options(synchronize_session=False)
        )
