"""Who waits for news of jobs, and how they hear of them: one query for all streams of a process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import Context
from itertools import chain
from typing import Any, TypeVar

from fastapi.concurrency import run_in_threadpool

from app.database import UNREACHABLE, Database
from app.errors import TooManyStreams, TooManyStreamsOfTenant
from app.repositories.job_rows import JobReader
from app.services.job_changes import JobChanges
from app.services.watches import TenantWatch, Watch
from app.settings import Settings

logger = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 1.0
MOST_OF_THE_TIME, SLOWEST_PAUSE_S = 0.2, 3.0
"""The part of the time that asking the database may take, however many jobs are followed, unless
that would keep the streams waiting for longer."""
RETRY_AFTER_S = 5
Mark = tuple[Any, ...]
WatchT = TypeVar("WatchT", bound=Watch)


def most_of_a_tenant(settings: Settings) -> int:
    """How many streams of a process one tenant may hold. Without keys there is one tenant."""
    if settings.max_streams_per_tenant is not None:
        return settings.max_streams_per_tenant
    if settings.authentication == "off":
        return settings.max_streams
    return (settings.max_streams + 1) // 2


class Follower:
    """Looks at the followed jobs and tenants while there are any, and wakes those who wait for what
    has changed."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._max_streams = settings.max_streams
        self._max_of_tenant = most_of_a_tenant(settings)
        self._watches: dict[str, set[Watch]] = {}
        self._marks: dict[str, Mark] = {}
        self._of_tenants: dict[str, set[TenantWatch]] = {}
        self._changes = JobChanges(database)
        self._polling: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def streams(self) -> int:
        """How many streams there are."""
        return sum(1 for _ in self._all())

    @contextmanager
    def following(self, tenant: str, job_id: str) -> Iterator[Watch]:
        """Follow a job. Raises `TooManyStreams` where this process has as many as it may, and
        `TooManyStreamsOfTenant` where the tenant has its share of them."""
        self._check_room(tenant)
        watch = Watch(tenant)
        self._watches.setdefault(job_id, set()).add(watch)
        self._start()
        try:
            yield watch
        finally:
            if _left(self._watches, job_id, watch):
                self._marks.pop(job_id, None)

    @contextmanager
    def following_all(self, tenant: str) -> Iterator[TenantWatch]:
        """Follow all jobs of a tenant; raises as `following` does."""
        self._check_room(tenant)
        watch = TenantWatch(tenant)
        self._of_tenants.setdefault(tenant, set()).add(watch)
        self._start()
        try:
            yield watch
        finally:
            _left(self._of_tenants, tenant, watch)

    def close(self) -> None:
        """Let all streams end, so that a server that shuts down need not wait for them."""
        self._is_closed = True
        for watch in self._all():
            watch.end()

    async def stop(self) -> None:
        """Close, and ask the database nothing more."""
        self.close()
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)

    def _all(self) -> Iterator[Watch]:
        return chain.from_iterable((*self._watches.values(), *self._of_tenants.values()))

    def _check_room(self, tenant: str) -> None:
        if self.streams >= self._max_streams or self._is_closed:
            raise TooManyStreams(
                "Poll instead, or try again later.", headers={"Retry-After": str(RETRY_AFTER_S)}
            )
        if sum(watch.tenant == tenant for watch in self._all()) >= self._max_of_tenant:
            raise TooManyStreamsOfTenant(
                f"At most {self._max_of_tenant} streams of a tenant may be open here; close one, "
                "or poll instead.",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )

    def _start(self) -> None:
        if self._polling is None:
            # In a context of its own: it outlives the request that happened to come first.
            poll = self._poll()
            self._polling = asyncio.get_running_loop().create_task(poll, context=Context())

    async def _poll(self) -> None:
        pause_s = FIRST_PAUSE_S
        try:
            while self._watches or self._of_tenants:
                began = time.monotonic()
                try:
                    has_news = await self._look()
                    pause_s = FIRST_PAUSE_S if has_news else min(pause_s * 1.5, LONGEST_PAUSE_S)
                except UNREACHABLE as error:
                    logger.warning("followed jobs cannot be looked at: %s", error)
                    pause_s = LONGEST_PAUSE_S
                except Exception:
                    # All streams depend on this task, so it outlives what nobody foresaw.
                    logger.exception("followed jobs cannot be looked at")
                    pause_s = LONGEST_PAUSE_S
                taken_s = time.monotonic() - began
                slowed_s = min(taken_s / MOST_OF_THE_TIME, SLOWEST_PAUSE_S)
                await asyncio.sleep(max(pause_s, slowed_s))
        finally:
            self._polling = None

    async def _look(self) -> bool:
        has_news = False
        if self._watches:
            has_news = self._tell(await run_in_threadpool(self._read, tuple(self._watches)))
        if self._of_tenants:
            has_news |= await self._look_at_tenants()
        return has_news

    def _read(self, job_ids: Collection[str]) -> dict[str, Mark]:
        with self._database.looking() as connection:
            return JobReader(connection).marks(job_ids)

    def _tell(self, marks: dict[str, Mark]) -> bool:
        """Wake whose job looks different, or has never been looked at, or is gone."""
        has_news = False
        for job_id, watches in self._watches.items():
            mark = marks.get(job_id)
            if mark is None or mark != self._marks.get(job_id):
                has_news = True
                self._marks[job_id] = mark or ()
                for watch in watches:
                    watch.tell()
        return has_news

    async def _look_at_tenants(self) -> bool:
        watches = [watch for watches in self._of_tenants.values() for watch in watches]
        following = {watch.tenant for watch in watches if watch.has_begun}
        beginning = {watch.tenant for watch in watches if not watch.has_begun}
        changes = await run_in_threadpool(self._changes.look, following, beginning)
        for watch in watches:
            rows = changes.rows.get(watch.tenant, [])
            if watch.has_begun:
                rows = [row for row in rows if row.id in changes.changed]
            watch.add(rows)
        return bool(changes.changed)


def _left(watches: dict[str, set[WatchT]], followed: str, watch: WatchT) -> bool:
    """Take a watch out; whether it was the last one of what it followed."""
    watches[followed].discard(watch)
    if watches[followed]:
        return False
    del watches[followed]
    return True
