"""What is kept for how long: jobs, logs, answers, runs, idempotency keys, the audit log.

Everything goes in steps of a few rows, each its own transaction, so that SQLite's write lock is
never held for long; any number of processes may do it at once. Nothing that waits or runs is
removed, nor a job whose webhook still has to be delivered.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from app.database import Database, milliseconds
from app.observability import metrics
from app.repositories.expiry import (
    START,
    ExpiryRepository,
    Mark,
    old_audit_entries,
    old_jobs,
    old_log_rows,
    old_runs,
    unasked_solves,
)
from app.repositories.idempotency import IdempotencyRepository
from app.repositories.removal import RemovalRepository
from app.settings import Settings

logger = logging.getLogger(__name__)
DAY_S = 86_400.0
EVERY_S = 60.0
AT_ONCE_S = 0.2
"""How long the sweep removes things before it looks after solves again."""
JOBS_PER_STEP = 50
SOLVES_PER_LOOK = 100
RUNS_PER_LOOK = 20
ENTRIES_PER_STEP = 500

Removed = Iterator[tuple[str, int]]


class Retention:
    """Removes what has expired. Where a setting is 0, nothing does."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._due_at = 0.0
        self._steps: Removed = iter(())
        # A finished solve gets no more log lines, so none has to be looked at twice.
        self._logs_gone: Mark = START

    def sweep(self) -> None:
        """A little of the work, at most once a minute; what is left is done by the next calls."""
        now = time.monotonic()
        if now >= self._due_at:
            self._due_at = now + EVERY_S
            self._steps = self._all_steps()
        removed: Counter[str] = Counter()
        for what, count in self._steps:
            removed[what] += count
            if time.monotonic() - now > AT_ONCE_S:
                break
        _report(removed)

    def remove_all(self) -> Mapping[str, int]:
        """Remove everything that has expired; how much of what."""
        removed: Counter[str] = Counter()
        for what, count in self._all_steps():
            removed[what] += count
        _report(removed)
        return +removed

    def expired(self) -> Mapping[str, int]:
        """How much could be removed now. Jobs that are beyond the number to be kept and old are
        counted twice, and answers without those that lose their last job."""
        keep = self._settings
        found: Counter[str] = Counter()
        with self._database.reading() as session:
            expiry = ExpiryRepository(session)
            if keep.keep_jobs_days:
                found["jobs"] += expiry.count(old_jobs(_ms(keep.keep_jobs_days)))
            if keep.keep_jobs:
                for tenant in expiry.tenants():
                    found["jobs"] += len(expiry.jobs_beyond(tenant, keep.keep_jobs, None))
            if keep.keep_logs_days:
                age_ms = _ms(keep.keep_logs_days)
                found["log_rows"] += sum(map(expiry.count, old_log_rows(age_ms)))
            if keep.keep_answers_days:
                found["answers"] += expiry.count(unasked_solves(_ms(keep.keep_answers_days)))
            if keep.keep_runs_days:
                found["runs"] += expiry.count(old_runs(_ms(keep.keep_runs_days)))
            if keep.keep_audit_days:
                age_ms = _ms(keep.keep_audit_days)
                found["audit_entries"] += expiry.count(old_audit_entries(age_ms))
        return +found

    def _all_steps(self) -> Removed:
        keep = self._settings
        if keep.keep_jobs_days:
            yield from self._old_jobs(_ms(keep.keep_jobs_days))
        if keep.keep_jobs:
            yield from self._jobs_beyond(keep.keep_jobs)
        if keep.keep_logs_days:
            yield from self._old_logs(_ms(keep.keep_logs_days))
        if keep.keep_answers_days:
            yield from self._unasked_solves(_ms(keep.keep_answers_days))
        if keep.keep_runs_days:
            yield from self._old_runs(_ms(keep.keep_runs_days))
        if keep.keep_audit_days:
            yield from self._old_audit_entries(_ms(keep.keep_audit_days))
        self._forget_idempotency_keys()

    def _old_jobs(self, age_ms: int) -> Removed:
        yield from self._remove_jobs(lambda expiry: expiry.old_jobs(age_ms, JOBS_PER_STEP))

    def _jobs_beyond(self, keep: int) -> Removed:
        with self._database.reading() as session:
            tenants = ExpiryRepository(session).tenants()
        for tenant in tenants:
            yield from self._remove_jobs(partial(_beyond, tenant=tenant, keep=keep))

    def _remove_jobs(self, look: Callable[[ExpiryRepository], Sequence[str]]) -> Removed:
        while True:
            with self._database.reading() as session:
                found = look(ExpiryRepository(session))
            if not found:
                return
            with self._database.writing() as session:
                job_ids = ExpiryRepository(session).lock_jobs(found)
                RemovalRepository(session).remove_jobs(job_ids)
            if not job_ids:
                return
            yield "jobs", len(job_ids)

    def _old_logs(self, age_ms: int) -> Removed:
        while True:
            with self._database.reading() as session:
                solves = ExpiryRepository(session).old_logs(
                    age_ms, self._logs_gone, SOLVES_PER_LOOK
                )
            if not solves:
                return
            for solve in solves:
                with self._database.writing() as session:
                    rows = RemovalRepository(session).remove_log(solve.solve_id)
                self._logs_gone = solve.mark
                yield "log_rows", rows

    def _unasked_solves(self, age_ms: int) -> Removed:
        return self._one_by_one(
            "answers",
            lambda expiry: expiry.unasked_solves(age_ms, SOLVES_PER_LOOK),
            lambda expiry, solve_id: expiry.lock_unasked(solve_id, age_ms),
            RemovalRepository.remove_solve,
        )

    def _old_runs(self, age_ms: int) -> Removed:
        return self._one_by_one(
            "runs",
            lambda expiry: expiry.old_runs(age_ms, RUNS_PER_LOOK),
            lambda expiry, run_id: expiry.lock_old_run(run_id, age_ms),
            RemovalRepository.remove_run,
        )

    def _one_by_one(
        self,
        what: str,
        look: Callable[[ExpiryRepository], Sequence[str]],
        may_go: Callable[[ExpiryRepository, str], bool],
        remove: Callable[[RemovalRepository, str], None],
    ) -> Removed:
        while True:
            with self._database.reading() as session:
                found = look(ExpiryRepository(session))
            removed = 0
            for own_id in found:
                with self._database.writing() as session:
                    gone = may_go(ExpiryRepository(session), own_id)
                    if gone:
                        remove(RemovalRepository(session), own_id)
                removed += gone
                yield what, int(gone)
            if not removed:
                return

    def _old_audit_entries(self, age_ms: int) -> Removed:
        while True:
            with self._database.writing() as session:
                count = ExpiryRepository(session).remove_audit_entries(age_ms, ENTRIES_PER_STEP)
            if not count:
                return
            yield "audit_entries", count

    def _forget_idempotency_keys(self) -> None:
        lifetime_ms = milliseconds(self._settings.idempotency_key_lifetime_s)
        with self._database.writing() as session:
            IdempotencyRepository(session, lifetime_ms).forget_expired()


def _beyond(expiry: ExpiryRepository, tenant: str, keep: int) -> Sequence[str]:
    return expiry.jobs_beyond(tenant, keep, JOBS_PER_STEP)


def _ms(days: float) -> int:
    return milliseconds(days * DAY_S)


def _report(removed: Mapping[str, int]) -> None:
    for what, count in removed.items():
        metrics.expired(what, count)
    said = ", ".join(
        f"{count} {what.replace('_', ' ')}" for what, count in removed.items() if count
    )
    if said:
        logger.info("expired and removed: %s", said)
