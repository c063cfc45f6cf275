"""One look at a run: what is new is read, the planner says what follows, and that is carried out.

All that follows is one transaction, which begins by comparing the run's revision: where another
process was quicker, or the run was changed or stopped meanwhile, none of it happens.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import case, literal
from sqlalchemy.orm import Session

from app.callers import Caller
from app.database import Database, clock_ms
from app.errors import JobNotFound
from app.models import Run
from app.observability import metrics
from app.repositories.run_looks import RunLooks, answer_of, document_of
from app.repositories.run_rows import RunReader, RunRow
from app.repositories.run_telemetry import TelemetryRepository
from app.repositories.runs import NewEvent, RunRepository
from app.services.cancelling import detach
from app.services.resolutions import json_text
from app.services.runs.memory import Memory, Remembered, Samples, window_of
from app.services.runs.mirror import (
    changed_plan,
    count_versions,
    mirror_versions,
    size_columns,
    version_columns,
)
from app.services.runs.solving import Solves
from app.services.runs.stored import stored_state
from app.services.submission import Prepared, Submission
from planner.following.look import Look, NewVersion, Outcome, Solved
from planner.following.solve_records import Reason
from planner.following.state import RunState
from planner.following.step import step
from planner.pipeline.documents import problem_to_document, read_problem

LOOK_EVERY_MS = 1_000
"""The least time between two looks at a run that nothing but telemetry calls for."""
PLANS_KEPT = 10
"""Versions of a run whose problem and schedule are kept, the newest, beside the running one."""
VERSIONS_ACKED = 3
"""Of so many of the newest versions acknowledgements are read, and of the running one."""
LONGEST_DETAIL = 2000
TRUE = ("1", "true")
"""As SQLite and as PostgreSQL tell it of a document."""


@dataclass(frozen=True)
class _Seen:
    """What a look has read. `row` is from before the rest, so that nothing newer counts as seen."""

    row: RunRow
    state: RunState
    samples: Samples
    solved: Solved | None
    acks: dict[int, dict[int, int]]


class Looker:
    """Looks at runs for the keeper of this name; it belongs to one thread."""

    def __init__(
        self, database: Database, submission: Submission, solves: Solves, keeper: str
    ) -> None:
        self._database = database
        self._submission = submission
        self._solves = solves
        self._keeper = keeper
        self._memory = Memory()

    def look(self, run_id: str) -> bool:
        """Look at a run; False where somebody else was quicker, so that nothing was done."""
        seen = self._read(run_id)
        if seen is None:
            return True
        outcome = step(
            seen.state,
            Look(
                newest_iteration=seen.row.newest_iteration,
                samples=list(seen.samples.values()),
                acks=seen.acks,
                solved=seen.solved,
            ),
        )
        outcome = self._on_its_placement(seen, outcome)
        prepared = None
        if outcome.solve is not None:
            prepared = self._solves.prepare(seen.row, outcome.solve)

        def carry_out(session: Session) -> bool:
            return self._carry_out(session, seen, outcome, prepared)

        self._memory.forget(run_id)
        if not self._submission.transaction(carry_out):
            return False
        self._remember(seen, outcome)
        return True

    def _read(self, run_id: str) -> _Seen | None:
        with self._database.reading() as session:
            connection = session.connection()
            reader = RunReader(connection)
            row = next(iter(reader.some([run_id])), None)
            if row is None or not row.is_active:
                return None
            known = self._memory.get(row, self._keeper)
            state = stored_state(reader, run_id) if known is None else known.state
            window = state.settings.window
            samples: Samples = {} if known is None else known.samples
            if row.newest_iteration is not None:
                first = max(0, row.newest_iteration - window + 1)
                changed_from = first if known is None else row.changed_from
                rows = (
                    []
                    if changed_from is None
                    else TelemetryRepository(connection).window(run_id, max(first, changed_from))
                )
                samples = window_of(samples, rows, row.newest_iteration, window)
            wanted = {state.running or 0} | {
                version.number for version in state.versions[-VERSIONS_ACKED:]
            }
            acks = {version: dict(ranks) for version, ranks in reader.acks(run_id, wanted).items()}
            solved = _solved(RunLooks(session), row, state)
        return _Seen(row, state, samples, solved, acks)

    def _on_its_placement(self, seen: _Seen, outcome: Outcome) -> Outcome:
        """The first plan of a run says which placement of the stages is followed from then on."""
        publish, solving = outcome.publish, seen.state.solving
        if publish is None or publish.copy_of is not None or seen.row.job_id is None:
            return outcome
        # Later ones are asked for in the placement that is followed by then.
        if solving is None or solving.reason is not Reason.FIRST or solving.number > 1:
            return outcome
        with self._database.reading() as session:
            text = RunLooks(session).answer_part(seen.row.tenant, seen.row.job_id, "problem")
        base = read_problem(json.loads(text or "{}"))
        known = outcome.state.base
        if replace(base, devices=known.devices) == known:
            # But for the headroom, which is no limit of the run.
            return outcome
        return replace(outcome, state=replace(outcome.state, base=base))

    def _carry_out(
        self, session: Session, seen: _Seen, outcome: Outcome, prepared: Prepared | None
    ) -> bool:
        row, before, after = seen.row, seen.state, outcome.state
        runs = RunRepository(session)
        columns: dict[str, Any] = {
            "looked": row.news,
            "keeper": self._keeper,
            "look_after": clock_ms() + LOOK_EVERY_MS,
            "job_id": _job_in_flight(row, after, prepared),
            # Whatever came since is still to be read.
            "changed_from": case((Run.news == row.news, literal(None)), else_=Run.changed_from),
        }
        if after != before:
            columns |= {"revision": row.revision + 1, **size_columns(after)}
        if before.versions != after.versions or before.running != after.running:
            columns |= changed_plan(after)
        if not runs.change(row.id, row.revision, **columns):
            return False
        if outcome.drop_solve and row.job_id is not None:
            with suppress(JobNotFound):
                detach(session, _keeper_of(row), row.job_id)
        if outcome.publish is not None:
            self._publish(runs, seen, outcome.publish, after)
        mirror_versions(runs, row.id, before, after)
        if prepared is not None:
            self._submission.make(session, row.tenant, [prepared])
        self._write_state(runs, row.id, before, after)
        runs.add_events(row.id, [_event(one) for one in outcome.events])
        if row.newest_iteration is not None:
            first = row.newest_iteration - after.settings.window + 1
            TelemetryRepository(session.connection()).prune(row.id, first)
        return True

    def _publish(self, runs: RunRepository, seen: _Seen, new: NewVersion, after: RunState) -> None:
        row, solved = seen.row, seen.solved
        columns = version_columns(after.version(new.number))
        if new.copy_of is not None:
            columns["document"] = document_of(row.id, new.copy_of)
        else:
            assert row.job_id is not None
            assert solved is not None
            columns |= {"job_id": row.job_id, "makespan_ns": solved.makespan_ns}
            columns["document"] = answer_of(row.job_id)
        runs.add_version(row.id, columns)
        kept = [number for number in (after.running, seen.state.running) if number is not None]
        runs.forget_plans(row.id, new.number - PLANS_KEPT + 1, kept)

    def _write_state(
        self, runs: RunRepository, run_id: str, before: RunState, after: RunState
    ) -> None:
        if after != before:
            runs.set_document(run_id, "state", json_text(after.to_document()))
        if after.base != before.base:
            runs.set_document(run_id, "problem", json_text(problem_to_document(after.base)))

    def _remember(self, seen: _Seen, outcome: Outcome) -> None:
        row, after = seen.row, outcome.state
        revision = row.revision + int(after != seen.state)
        self._memory.put(row.id, Remembered(revision, row.news, after, seen.samples))
        count_versions(seen.state, after)
        if outcome.solve is not None:
            metrics.run_solve_wanted(outcome.solve.reason.value)


def _solved(looks: RunLooks, row: RunRow, state: RunState) -> Solved | None:
    """How the solve in flight ended; None while it has not."""
    if row.job_id is None or state.solving is None:
        return None
    ended = looks.ended(row.tenant, row.job_id)
    if ended is None:
        return None
    detail = ended.shortage
    if ended.error is not None:
        detail = str(json.loads(ended.error).get("detail"))
    return Solved(
        number=state.solving.number,
        state=ended.state,  # type: ignore[arg-type]
        replacement=None if ended.replacement is None else json.loads(ended.replacement),
        unsafe=None if ended.memory_safe in TRUE else ended.memory_safety or "not known",
        detail=detail,
        makespan_ns=None if ended.makespan_ns is None else int(ended.makespan_ns),
        lower_bound_ns=ended.lower_bound,
    )


def _job_in_flight(row: RunRow, after: RunState, prepared: Prepared | None) -> str | None:
    if prepared is not None:
        return prepared.job_id
    return row.job_id if after.solving is not None else None


def _keeper_of(row: RunRow) -> Caller:
    return Caller(tenant=row.tenant, actor="run keeper", scopes=frozenset())


def _event(event: Any) -> NewEvent:
    return NewEvent(event.kind, event.detail[:LONGEST_DETAIL], event.iteration)
