"""Taking what runs report.

Ranks post once per iteration, and a transaction for each post would cost more than everything else
about it. So one writer stores for all: whatever comes while it is busy waits, and is stored by the
next transaction. Nobody is answered before what was posted is stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.callers import Caller
from app.database import Database, is_deadlock
from app.errors import InvalidRequest, RunNotFound, RunStopped, ServiceError
from app.models import RunStatus
from app.observability import metrics
from app.repositories.run_telemetry import Key, Reported, Row, RunFacts, TelemetryRepository
from planner.following.telemetry import Sample

logger = logging.getLogger(__name__)

FURTHEST_FIRST = 10_000_000
"""The first report of a run may have an iteration up to this: a run may be resumed."""
FURTHEST_AHEAD = 10_000
"""Iterations: a post that is further ahead of the newest one is a mistake."""
NEAR = 10
"""Iterations: what is further ahead moves the newest one only where other stages confirm it, since
one wrong number would make everything before it late."""
SAMPLES_AT_ONCE = 20_000
"""Of one transaction, which holds SQLite's write lock; a single post may have more."""
MOST_WAITING = 500_000
"""Samples that wait to be stored while the database does not get on."""
TRIES = 3


@dataclass(frozen=True)
class Taken:
    """How many samples of a post were stored, were known, and came too late to be of use; and how
    the run stands."""

    accepted: int
    known: int
    late: int
    facts: RunFacts
    newest_iteration: int

    def to_document(self) -> dict[str, Any]:
        """The answer to the post."""
        facts = self.facts
        plan = None
        if facts.newest_version is not None:
            plan = {
                "version": facts.newest_version,
                "state": facts.newest_state,
                "apply_at_iteration": facts.apply_at_iteration,
                "running_version": facts.running_version,
            }
        return {
            "accepted": self.accepted,
            "known": self.known,
            "late": self.late,
            "newest_iteration": self.newest_iteration,
            "plan": plan,
        }


@dataclass(frozen=True, eq=False)
class _Post:
    tenant: str
    run_id: str
    samples: Sequence[Sample]
    taken: asyncio.Future[Taken]


class TelemetryWriter:
    """The writes of one process. It belongs to the event loop that posts arrive at."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # A thread of its own: posts neither take those of others nor wait for them.
        self._thread = CapacityLimiter(1)
        self._writer: asyncio.Task[None] | None = None
        # The writer outlives the request that happened to come first.
        self._context = Context()
        self._waiting: dict[_Post, None] = {}
        self._waiting_samples = 0

    async def store(self, caller: Caller, run_id: str, samples: Sequence[Sample]) -> Taken:
        """Store what is new of a post, once for all.

        Raises `RunNotFound`, `RunStopped`, `InvalidRequest` where a stage or an iteration cannot
        be of this run, and `PoolTimeout` where it cannot be stored in time; then none of it is.
        """
        if self._waiting_samples + len(samples) > MOST_WAITING:
            raise PoolTimeout("too much telemetry waits for the database")
        loop = asyncio.get_running_loop()
        post = _Post(caller.tenant, run_id, samples, loop.create_future())
        self._add(post)
        if self._writer is None:
            self._writer = loop.create_task(self._serve(), context=self._context)
        done, _ = await asyncio.wait({post.taken}, timeout=self._database.timeout_s)
        if not done:
            if post in self._waiting:
                self._remove(post)
            raise PoolTimeout("telemetry waits for the database")
        return post.taken.result()

    def _add(self, post: _Post) -> None:
        self._waiting[post] = None
        self._waiting_samples += len(post.samples)

    def _remove(self, post: _Post) -> None:
        del self._waiting[post]
        self._waiting_samples -= len(post.samples)

    async def _serve(self) -> None:
        while self._waiting:
            posts = self._next_posts()
            outcomes: Sequence[Taken | Exception]
            try:
                outcomes = await run_sync(self._store, posts, limiter=self._thread)
            except Exception as error:
                outcomes = [error] * len(posts)
            for post, outcome in zip(posts, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    post.taken.set_exception(outcome)
                    # Whoever posted may have gone by now, which is not worth a line in the log.
                    post.taken.exception()
                else:
                    post.taken.set_result(outcome)
        # Not in a callback, which would come too late for a post that comes right now.
        self._writer = None

    def _next_posts(self) -> list[_Post]:
        posts: list[_Post] = []
        samples = 0
        for post in self._waiting:
            samples += len(post.samples)
            if posts and samples > SAMPLES_AT_ONCE:
                break
            posts.append(post)
        for post in posts:
            self._remove(post)
        return posts

    def _store(self, posts: Sequence[_Post]) -> Sequence[Taken | Exception]:
        for _ in range(TRIES):
            try:
                with self._database.writing() as session:
                    outcomes = _store_all(TelemetryRepository(session.connection()), posts)
                break
            except OperationalError as error:
                if not is_deadlock(error):
                    raise
                deadlock = error
        else:
            raise deadlock
        metrics.telemetry_taken(outcomes_by_kind(outcomes))
        return outcomes


def outcomes_by_kind(outcomes: Sequence[Taken | Exception]) -> Mapping[str, int]:
    """How many samples were accepted, known and late, over all posts."""
    taken = [outcome for outcome in outcomes if isinstance(outcome, Taken)]
    return {
        "accepted": sum(one.accepted for one in taken),
        "known": sum(one.known for one in taken),
        "late": sum(one.late for one in taken),
    }


def _store_all(
    telemetry: TelemetryRepository, posts: Sequence[_Post]
) -> Sequence[Taken | Exception]:
    """Within one transaction, in the order in which they came."""
    facts = telemetry.hold({post.run_id for post in posts})
    newest = {run_id: own.newest_iteration for run_id, own in facts.items()}
    refused: dict[_Post, Exception] = {}
    rows: dict[Key, Row] = {}
    for post in posts:
        own = facts.get(post.run_id)
        try:
            newest[post.run_id] = _check(post, own, newest.get(post.run_id))
        except ServiceError as error:
            refused[post] = error
    kept = {
        post: _kept(post, facts[post.run_id], newest[post.run_id])
        for post in posts
        if post not in refused
    }
    for samples in kept.values():
        for key, row in samples.items():
            rows.setdefault(key, row)
    stored = telemetry.insert(list(rows.values())) if rows else set()
    jumped_from = _confirm_jumps(telemetry, kept, facts, newest)
    telemetry.note(_reported(stored, newest, jumped_from))
    outcomes: list[Taken | Exception] = []
    for post in posts:
        if post in refused:
            outcomes.append(refused[post])
            continue
        accepted = stored & kept[post].keys()
        # Of posts that have the same sample, the first one was accepted.
        stored -= accepted
        newest_iteration = newest[post.run_id]
        assert newest_iteration is not None
        outcomes.append(
            Taken(
                accepted=len(accepted),
                known=len(kept[post]) - len(accepted),
                late=len(post.samples) - len(kept[post]),
                facts=facts[post.run_id],
                newest_iteration=newest_iteration,
            )
        )
    return outcomes


def _check(post: _Post, facts: RunFacts | None, newest: int | None) -> int:
    """The newest iteration with this post. Raises what `TelemetryWriter.store` says."""
    if facts is None or facts.tenant != post.tenant:
        raise RunNotFound(f"There is no run {post.run_id}.")
    if facts.state == RunStatus.STOPPED:
        raise RunStopped("The run was stopped, and takes no telemetry any more.")
    stage = max(sample.stage for sample in post.samples)
    if stage >= facts.stages:
        raise InvalidRequest.of(
            "stages",
            f"there is no stage {stage}.",
            f"The run has {facts.stages} stages, counted from 0.",
        )
    iterations = sorted(sample.iteration for sample in post.samples)
    furthest = iterations[-1]
    if newest is None and furthest > FURTHEST_FIRST:
        raise InvalidRequest.of(
            "iteration",
            f"{furthest} is too large for the first report of a run.",
            f"Number the iterations of a run from 0, or from where it resumes, up to "
            f"{FURTHEST_FIRST}.",
        )
    known = iterations[0] if newest is None else newest
    if furthest > known + FURTHEST_AHEAD:
        raise InvalidRequest.of(
            "iteration",
            f"{furthest} is more than {FURTHEST_AHEAD} after {known}, the newest one.",
            "Number the iterations of a run without gaps; begin another run where they start anew.",
        )
    for iteration in iterations:
        if known < iteration <= known + NEAR:
            known = iteration
    return known


def _confirm_jumps(
    telemetry: TelemetryRepository,
    kept: Mapping[_Post, Mapping[Key, Row]],
    facts: Mapping[str, RunFacts],
    newest: dict[str, int | None],
) -> Mapping[str, int]:
    """Move on the newest iteration of runs that posts were far ahead of, where most stages are;
    by run what it was before."""
    jumped = {
        run_id
        for samples in kept.values()
        for run_id, iteration, _ in samples
        if iteration > (newest[run_id] or 0)
    }
    before = {}
    for run_id in jumped:
        known = newest[run_id]
        assert known is not None
        confirmed = confirmed_newest(
            telemetry.by_stage(run_id, known - facts[run_id].kept_iterations)
        )
        if confirmed > known:
            before[run_id], newest[run_id] = known, confirmed
    return before


def confirmed_newest(by_stage: Mapping[int, Sequence[int]]) -> int:
    """The lower median over stages of the newest iteration of each, so that no single one moves it;
    where only one stage reports, its second newest. `by_stage` has iterations in order."""
    if len(by_stage) == 1:
        (own,) = by_stage.values()
        return own[-2] if len(own) > 1 else own[-1]
    newest = sorted(own[-1] for own in by_stage.values())
    return newest[(len(newest) - 1) // 2]


def _kept(post: _Post, facts: RunFacts, newest: int | None) -> dict[Key, Row]:
    """The samples that are recent enough to be of use."""
    assert newest is not None
    first = newest - facts.kept_iterations
    return {
        (post.run_id, sample.iteration, sample.stage): (
            post.run_id,
            sample.iteration,
            sample.stage,
            sample.to_text(),
        )
        for sample in post.samples
        if sample.iteration > first
    }


def _reported(
    stored: set[Key], newest: Mapping[str, int | None], jumped_from: Mapping[str, int]
) -> Sequence[Reported]:
    # What was stored ahead of the newest iteration has not been looked at yet.
    lowest = {run_id: iteration + 1 for run_id, iteration in jumped_from.items()}
    for run_id, iteration, _ in stored:
        lowest[run_id] = min(iteration, lowest.get(run_id, iteration))
    return [
        Reported(run_id, latest, changed_from)
        for run_id, changed_from in lowest.items()
        if (latest := newest[run_id]) is not None
    ]
