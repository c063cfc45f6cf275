"""Batches: taking many requests on at once, all or none, and comparing what comes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

from app.callers import Caller
from app.cursors import decode_cursor, encode_cursor
from app.database import Database
from app.errors import BatchNotFound, FieldError, InvalidRequest, LimitExceeded
from app.models import Batch, SolveState
from app.repositories.batches import BatchCount, BatchRepository, BatchRow
from app.schemas.batches import (
    BatchAccepted,
    BatchEntry,
    BatchJobView,
    BatchPage,
    BatchPreview,
    BatchPreviewEntry,
    BatchRequest,
    BatchSummary,
    BatchView,
    BestOfKind,
    batch_links,
)
from app.schemas.jobs import links_of
from app.schemas.requests import read_fields
from app.schemas.times import known_instant
from app.services.idempotency import RequestKey
from app.services.job_views import gap_of
from app.services.jobs import Jobs
from app.services.plan_requests import PlanRequests
from app.services.submission import Made, Submission, Wanted
from app.settings import Settings
from planner.errors import SpecError

BATCH = "batch"
MOST_ERRORS = 100
MOST_RESOLVED_BYTES = 128 * 2**20
"""Of the requests of one batch together: a short body can name problems that are large."""


class _Standing(TypedDict):
    objective: int | None
    bound: int | None
    gap: float | None


class Batches:
    """The rules of batches; `plans` reads the requests of each kind."""

    def __init__(
        self,
        database: Database,
        settings: Settings,
        submission: Submission,
        jobs: Jobs,
        plans: Mapping[str, PlanRequests[Any]],
    ) -> None:
        self._database = database
        self._settings = settings
        self._submission = submission
        self._jobs = jobs
        self._plans = plans

    def submit(
        self, caller: Caller, body: Mapping[str, Any], *, fresh: bool, idempotency_key: str | None
    ) -> Made:
        """Make the batch and its jobs, unless this request has come before under this key."""
        self._check_count(body)
        key = RequestKey.of(idempotency_key, kind=BATCH, body=body, fresh=fresh)
        made = self._submission.made_before(caller.tenant, key)
        if made is not None:
            return made
        batch, wanted = self._read(caller, body)
        return self._submission.submit_batch(
            caller.tenant, batch.name, wanted, fresh=fresh, key=key
        )

    def preview(self, caller: Caller, body: Mapping[str, Any]) -> BatchPreview:
        """What would be taken on; nothing is queued."""
        self._check_count(body)
        batch, wanted = self._read(caller, body)
        return BatchPreview(
            requests=[
                BatchPreviewEntry(
                    position=position,
                    kind=entry.kind,
                    name=one.options.name,
                    engine=one.resolved.engine,
                    operations=one.resolved.operations,
                    time_limit_s=one.resolved.time_limit_s,
                )
                for position, (entry, one) in enumerate(zip(batch.requests, wanted, strict=True))
            ]
        )

    def accepted(self, caller: Caller, batch_id: str) -> BatchAccepted:
        """What the answer to a posted batch says."""
        _, rows = self._load(caller, batch_id)
        return BatchAccepted(
            id=batch_id,
            jobs=len(rows),
            cache=Counter(row.cache for row in rows),
            states=Counter(SolveState(row.state) for row in rows),
            links=batch_links(batch_id),
        )

    def view(self, caller: Caller, batch_id: str) -> BatchView:
        """The batch with the comparison of its jobs."""
        batch, rows = self._load(caller, batch_id)
        return batch_view(batch, rows)

    def page(self, caller: Caller, cursor: str | None, limit: int) -> BatchPage:
        """One page of the tenant's batches, newest first."""
        before = None if cursor is None else decode_cursor(cursor)
        with self._database.reading() as session:
            counts = BatchRepository(session).page(caller.tenant, before, limit + 1)
        shown, last = counts[:limit], counts[limit - 1] if len(counts) > limit else None
        return BatchPage(
            batches=[_summary(count) for count in shown],
            next_cursor=None
            if last is None
            else encode_cursor(last.batch.created_at, last.batch.id),
        )

    def cancel(self, caller: Caller, batch_id: str) -> BatchView:
        """Cancel those of its jobs that are not over; each solve stops with its last job."""
        self._load(caller, batch_id)
        with self._database.reading() as session:
            unfinished = BatchRepository(session).unfinished(batch_id)
        self._jobs.cancel_all(caller, unfinished)
        return self.view(caller, batch_id)

    def _load(self, caller: Caller, batch_id: str) -> tuple[Batch, list[BatchRow]]:
        with self._database.reading() as session:
            batch = BatchRepository(session).get(caller.tenant, batch_id)
            if batch is None:
                raise BatchNotFound(f"There is no batch {batch_id}.")
            return batch, BatchRepository(session).rows(batch_id)

    def _check_count(self, body: Mapping[str, Any]) -> None:
        """Before anything looks at the requests themselves."""
        posted = body.get("requests")
        if isinstance(posted, list) and len(posted) > self._settings.max_batch_requests:
            raise LimitExceeded.of(
                "requests",
                f"{len(posted)} requests are too many.",
                f"Give at most {self._settings.max_batch_requests}.",
            )

    def _read(self, caller: Caller, body: Mapping[str, Any]) -> tuple[BatchRequest, list[Wanted]]:
        """All requests, resolved. Raises `InvalidRequest` that names what is wrong with each."""
        batch = read_fields(BatchRequest, body)
        wanted: list[Wanted] = []
        errors: list[FieldError] = []
        resolved_bytes = 0
        for position, entry in enumerate(batch.requests):
            try:
                one = self._wanted(caller, batch, entry)
            except (InvalidRequest, SpecError) as error:
                errors += _errors_at(position, error)
                continue
            wanted.append(one)
            resolved_bytes += one.resolved.bytes
            _check_size(position, resolved_bytes)
        if errors:
            detail = "; ".join(f"{error.path}: {error.message}" for error in errors[:MOST_ERRORS])
            raise InvalidRequest(detail, errors=errors[:MOST_ERRORS])
        return batch, wanted

    def _wanted(self, caller: Caller, batch: BatchRequest, entry: BatchEntry) -> Wanted:
        defaults = batch.model_copy(update={"name": entry.name})
        return self._plans[entry.kind].read(caller.tenant, entry.request, defaults)


def _check_size(position: int, resolved_bytes: int) -> None:
    if resolved_bytes > MOST_RESOLVED_BYTES:
        raise LimitExceeded.of(
            "requests",
            f"resolve to more than {MOST_RESOLVED_BYTES} bytes at request {position}.",
            "Post them in several batches.",
        )


def batch_view(batch: Batch, rows: Sequence[BatchRow]) -> BatchView:
    """The public view of a batch."""
    states = Counter(SolveState(row.state) for row in rows)
    best = _best_of_kinds(rows)
    return BatchView(
        id=batch.id,
        name=batch.name,
        created_at=known_instant(batch.created_at),
        over=all(state.is_over for state in states),
        jobs=len(rows),
        states=states,
        best={
            kind: BestOfKind(
                position=row.position, job_id=row.job_id, name=row.name, **_standing(row)
            )
            for kind, row in best.items()
        },
        comparison=[_compared(row, best.get(row.kind)) for row in rows],
        links=batch_links(batch.id),
    )


def _best_of_kinds(rows: Sequence[BatchRow]) -> dict[str, BatchRow]:
    with_plan = [row for row in rows if _objective(row) is not None]
    return {
        kind: min(
            (row for row in with_plan if row.kind == kind),
            key=lambda row: (_objective(row), row.position),
        )
        for kind in dict.fromkeys(row.kind for row in with_plan)
    }


def _objective(row: BatchRow) -> int | None:
    """Of a plan that there is to be had: a failed job keeps none."""
    return None if row.state == SolveState.FAILED else row.best_objective


def _standing(row: BatchRow) -> _Standing:
    return {
        "objective": row.best_objective,
        "bound": row.lower_bound,
        "gap": gap_of(row, proven_optimal=row.proven_optimal),
    }


def _compared(row: BatchRow, best: BatchRow | None) -> BatchJobView:
    return BatchJobView(
        position=row.position,
        job_id=row.job_id,
        name=row.name,
        kind=row.kind,
        state=SolveState(row.state),
        cache=row.cache,
        engine=row.engine,
        ratio=_ratio(_objective(row), best),
        links=links_of(row.job_id),
        **_standing(row),
    )


def _ratio(objective: int | None, best: BatchRow | None) -> float | None:
    if objective is None or best is None or best.best_objective is None:
        return None
    if objective == best.best_objective:
        return 1.0
    return round(objective / best.best_objective, 6) if best.best_objective else None


def _summary(count: BatchCount) -> BatchSummary:
    batch = count.batch
    return BatchSummary(
        id=batch.id,
        name=batch.name,
        created_at=known_instant(batch.created_at),
        jobs=count.jobs,
        over=count.over,
        links=batch_links(batch.id),
    )


def _errors_at(position: int, error: InvalidRequest | SpecError) -> list[FieldError]:
    """What is wrong with the request at this position, each with its whole path."""
    if isinstance(error, SpecError):
        error = InvalidRequest.from_spec_error(error)
    prefix = f"requests.{position}.request"
    return [
        replace(field, path=f"{prefix}.{field.path}" if field.path else prefix)
        for field in error.errors
    ]
