"""Runs as clients see them: reading, listing, fetching plans, acknowledging, stopping."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from sqlalchemy.orm import Session

from app.callers import Caller
from app.cursors import decode_cursor, encode_cursor
from app.database import Database, clock_ms
from app.errors import (
    InvalidRequest,
    JobNotFound,
    RunActive,
    RunNotFound,
    RunStopped,
    VersionNotFound,
    VersionSuperseded,
)
from app.models import Run, RunStatus
from app.repositories.job_rows import JobReader
from app.repositories.removal import RemovalRepository
from app.repositories.run_rows import RunReader, RunRow, VersionRow
from app.repositories.runs import NewEvent, RunRepository
from app.schemas.runs import AckTaken, PlanAwaited, RunAccepted, RunPage, RunView
from app.services.audit import record
from app.services.cancelling import detach
from app.services.polls import SharedReads
from app.services.runs.newest import FURTHEST_AHEAD, FURTHEST_FIRST
from app.services.runs.stored import row_of, stored_samples, stored_state
from app.services.runs.views import accepted_view, plan_text, run_item, run_view
from planner.following.versions import VersionState

EVENTS_SHOWN = 50
UNPLANNED = ("refused", "solve_failed")
"""Events of solves that ended without a plan."""
WAY_OUT = (
    "PATCH the run with another problem, other memory limits or a longer "
    "follow.solve_time_limit_s; it is planned again then, or once its telemetry has changed."
)
GONE = (VersionState.SUPERSEDED, VersionState.ROLLED_BACK)
"""States of versions that nobody will run."""


class RunPolls(SharedReads[RunRow]):
    """The reads of runs without their documents."""

    def _read(self, row_ids: Collection[str]) -> Mapping[str, RunRow]:
        with self._database.looking() as connection:
            return {row.id: row for row in RunReader(connection).some(row_ids)}


class Runs:
    """The rules of runs that are there, each call one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._polls = RunPolls(database)

    async def poll(self, caller: Caller, run_id: str) -> RunRow:
        """The run without its documents, read together with what others ask for meanwhile."""
        row = await self._polls.row(run_id)
        if row is None or row.tenant != caller.tenant:
            raise RunNotFound(f"There is no run {run_id}.")
        return row

    def accepted(self, caller: Caller, run_id: str) -> RunAccepted:
        """What whoever made the run is told."""
        with self._database.looking() as connection:
            return accepted_view(row_of(RunReader(connection), caller, run_id))

    def page(
        self, caller: Caller, state: RunStatus | None, cursor: str | None, limit: int
    ) -> RunPage:
        """One page of runs, newest first."""
        before = None if cursor is None else decode_cursor(cursor)
        with self._database.looking() as connection:
            rows = RunReader(connection).page(caller.tenant, state, before, limit + 1)
        shown = rows[:limit]
        last = shown[-1] if len(rows) > limit else None
        return RunPage(
            runs=[run_item(row) for row in shown],
            next_cursor=None if last is None else encode_cursor(last.created_at, last.id),
        )

    def view(self, caller: Caller, run_id: str) -> RunView:
        """The run with everything about it but its plans, as of the last look."""
        with self._database.reading() as session:
            connection = session.connection()
            reader = RunReader(connection)
            row = row_of(reader, caller, run_id)
            state = stored_state(reader, run_id)
            job = None
            if row.job_id is not None:
                job = JobReader(connection).one(caller.tenant, row.job_id)
            return run_view(
                row,
                state,
                stored_samples(connection, row, state),
                reader.versions(run_id),
                reader.acknowledged(run_id),
                reader.acks(run_id, [state.pending.number] if state.pending else []),
                reader.events(run_id, EVENTS_SHOWN),
                job,
            )

    def awaited(self, caller: Caller, row: RunRow) -> PlanAwaited:
        """Why there is no plan yet."""
        if row.job_id is None:
            return PlanAwaited(state="none", job_id=None, reason=self._why_unplanned(row))
        with self._database.looking() as connection:
            job = JobReader(connection).one(caller.tenant, row.job_id)
        return PlanAwaited(state="none" if job is None else job.state, job_id=row.job_id)

    def _why_unplanned(self, row: RunRow) -> str | None:
        with self._database.looking() as connection:
            events = RunReader(connection).events(row.id, EVENTS_SHOWN)
        ended = next((event for event in events if event.kind in UNPLANNED), None)
        return None if ended is None else f"{ended.detail.rstrip('.')}. {WAY_OUT}"

    def plan(self, caller: Caller, run_id: str, version: int, *, brief: bool) -> str:
        """A version as JSON text, without problem and schedule if it is to be brief.

        Raises `VersionNotFound` where there is none, or it is too old to be kept.
        """
        with self._database.looking() as connection:
            reader = RunReader(connection)
            row = row_of(reader, caller, run_id)
            found = _version(reader, run_id, version)
            document = None if brief else _document(reader, row, version)
        return plan_text(row, found, document)

    def plan_document(self, caller: Caller, run_id: str, version: int) -> str:
        """Problem and schedule of a version, as JSON text. Raises what `plan` raises."""
        with self._database.looking() as connection:
            reader = RunReader(connection)
            row = row_of(reader, caller, run_id)
            _version(reader, run_id, version)
            return _document(reader, row, version)

    def acknowledge(
        self, caller: Caller, run_id: str, version: int, rank: int, iteration: int
    ) -> AckTaken:
        """A rank holds a version; to say so again changes nothing but, until the version is
        scheduled, the iteration.

        Raises `VersionNotFound`, and `VersionSuperseded` where nobody will run it.
        """
        with self._database.writing() as session:
            reader = RunReader(session.connection())
            row = row_of(reader, caller, run_id)
            if not row.is_active:
                raise RunStopped("The run was stopped, and follows nothing any more.")
            found = _version(reader, run_id, version)
            lead = stored_state(reader, run_id).settings.swap_lead
            _check_ack(row, found, rank, iteration, lead)
            runs = RunRepository(session)
            may_correct = found.state == VersionState.PUBLISHED
            is_news = runs.acknowledge(run_id, version, rank, iteration, may_correct=may_correct)
            if is_news:
                runs.tell(run_id)
            acknowledged = reader.acknowledged(run_id)[version]
        return AckTaken(
            version=version,
            state=VersionState(found.state),
            acknowledged=acknowledged,
            of=row.ranks,
            apply_at_iteration=found.apply_at_iteration,
        )

    def stop(self, caller: Caller, run_id: str) -> RunRow:
        """Follow the run no longer, and cancel the solve in flight; again changes nothing."""
        with self._database.writing() as session:
            run = _locked(session, caller, run_id)
            if run.state == RunStatus.ACTIVE:
                runs = RunRepository(session)
                if run.job_id is not None:
                    with suppress(JobNotFound):
                        detach(session, caller, run.job_id)
                stopped = {"state": RunStatus.STOPPED, "stopped_at": clock_ms(), "job_id": None}
                runs.change(run_id, run.revision, **stopped, revision=run.revision + 1)
                event = NewEvent("stopped", "The run was stopped.", run.newest_iteration)
                runs.add_events(run_id, [event])
                record(session, caller, "run stopped", run_id)
            return row_of(RunReader(session.connection()), caller, run_id)

    def purge(self, caller: Caller, run_id: str) -> None:
        """Remove the run for good, which has to be stopped (`RunActive`); its jobs stay."""
        with self._database.writing() as session:
            run = _locked(session, caller, run_id)
            if run.state == RunStatus.ACTIVE:
                raise RunActive("The run is followed; stop it first.")
            RemovalRepository(session).remove_run(run_id)
            record(session, caller, "run purged", run_id)


def _locked(session: Session, caller: Caller, run_id: str) -> Run:
    run = RunRepository(session).lock(caller.tenant, run_id)
    if run is None:
        raise RunNotFound(f"There is no run {run_id}.")
    return run


def _version(reader: RunReader, run_id: str, version: int) -> VersionRow:
    found = reader.version(run_id, version)
    if found is None:
        raise VersionNotFound(f"The run has no version {version}.")
    return found


def _document(reader: RunReader, row: RunRow, version: int) -> str:
    document = reader.version_document(row.id, version)
    if document is None:
        raise VersionNotFound(
            f"Version {version} is too old: its plan is not kept any more. "
            f"The newest is {row.newest_version}."
        )
    return document


def _check_ack(row: RunRow, version: VersionRow, rank: int, iteration: int, swap_lead: int) -> None:
    if version.state in GONE:
        raise VersionSuperseded(
            f"Version {version.version} is {version.state.replace('_', ' ')}; fetch the newest, "
            f"{row.newest_version}.",
            members={"newest_version": row.newest_version},
        )
    if rank >= row.ranks:
        raise InvalidRequest.of(
            "rank",
            f"there is no rank {rank}: {row.ranks} acknowledge, counted from 0.",
            "Set `follow.ranks` to the number of ranks that fetch plans.",
        )
    furthest = FURTHEST_FIRST
    if row.newest_iteration is not None:
        furthest = row.newest_iteration + swap_lead + FURTHEST_AHEAD
    if iteration > furthest:
        raise InvalidRequest.of(
            "iteration",
            f"{iteration} is too far ahead of what was reported; at most {furthest} may be.",
            "Give the iteration that the rank is in.",
        )
