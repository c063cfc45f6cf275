"""Taking what runs report.

Ranks post once per iteration, and a transaction for each post would cost more than everything else
about it. So one writer stores for all: whatever comes while it is busy waits, and is stored by the
next transaction. Nobody is answered before what was posted is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextvars import Context

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.callers import Caller
from app.database import Database, is_deadlock
from app.observability import metrics
from app.services.runs.posts import Post, Taken
from app.services.runs.storing import store_all
from app.services.runs.useless import add_events, late_events, late_in_a_row
from planner.following.telemetry import Sample

SAMPLES_AT_ONCE = 20_000
"""Of one transaction, which holds SQLite's write lock; a single post may have more."""
MOST_WAITING = 500_000
"""Samples that wait to be stored while the database does not get on."""
TRIES = 3


class TelemetryWriter:
    """The writes of one process. It belongs to the event loop that posts arrive at."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # A thread of its own: posts neither take those of others nor wait for them.
        self._thread = CapacityLimiter(1)
        self._writer: asyncio.Task[None] | None = None
        # The writer outlives the request that happened to come first.
        self._context = Context()
        self._waiting: dict[Post, None] = {}
        self._waiting_samples = 0
        self._late: dict[str, int] = {}

    async def store(self, caller: Caller, run_id: str, samples: Sequence[Sample]) -> Taken:
        """Store what is new of a post, once for all.

        Raises `RunNotFound`, `RunStopped`, `InvalidRequest` where a stage or an iteration cannot
        be of this run, and `PoolTimeout` where it cannot be stored in time; then none of it is.
        """
        if self._waiting_samples + len(samples) > MOST_WAITING:
            raise PoolTimeout("too much telemetry waits for the database")
        loop = asyncio.get_running_loop()
        post = Post(caller.tenant, run_id, samples, loop.create_future())
        self._add(post)
        if self._writer is None:
            self._writer = loop.create_task(self._serve(), context=self._context)
        done, _ = await asyncio.wait({post.taken}, timeout=self._database.timeout_s)
        if not done:
            if post in self._waiting:
                self._remove(post)
            raise PoolTimeout("telemetry waits for the database")
        return post.taken.result()

    def _add(self, post: Post) -> None:
        self._waiting[post] = None
        self._waiting_samples += len(post.samples)

    def _remove(self, post: Post) -> None:
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

    def _next_posts(self) -> list[Post]:
        posts: list[Post] = []
        samples = 0
        for post in self._waiting:
            samples += len(post.samples)
            if posts and samples > SAMPLES_AT_ONCE:
                break
            posts.append(post)
        for post in posts:
            self._remove(post)
        return posts

    def _store(self, posts: Sequence[Post]) -> Sequence[Taken | Exception]:
        for _ in range(TRIES):
            try:
                with self._database.writing() as session:
                    outcomes = store_all(session, posts)
                    late = late_in_a_row(self._late, posts, outcomes)
                    add_events(session, late_events(self._late, late, posts, outcomes))
                self._late = late
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
