"""The waits of streams for news: of one job, or of all jobs of a tenant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.repositories.job_rows import JobRow

MOST_UNTOLD = 10_000
"""Jobs whose changes are kept for a client that reads more slowly than they come."""


class Watch:
    """One stream's wait for news of its job."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self._news = asyncio.Event()
        self.is_ended = False

    async def wait(self, seconds: float) -> bool:
        """Return once there may be news, the service ends or the time has passed; the latter is
        False."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass
        is_told = self._news.is_set()
        self._news.clear()
        return is_told

    def tell(self) -> None:
        """There may be news."""
        self._news.set()

    def end(self) -> None:
        """The service ends."""
        self.is_ended = True
        self._news.set()


class TenantWatch(Watch):
    """One stream's wait for changes of any job of its tenant, and those that it has to tell."""

    def __init__(self, tenant: str) -> None:
        super().__init__(tenant)
        self._untold: dict[str, JobRow] = {}
        self.has_begun = False
        self.is_behind = False

    def add(self, rows: Sequence[JobRow]) -> None:
        """These jobs have changed. Of each the last state counts, and where there are too many,
        none: whoever is behind lists the jobs again."""
        self.has_begun = True
        self._untold.update((row.id, row) for row in rows)
        if len(self._untold) > MOST_UNTOLD:
            self._untold.clear()
            self.is_behind = True
        if self._untold or self.is_behind:
            self.tell()

    def take(self) -> list[JobRow]:
        """What has to be told now."""
        taken = list(self._untold.values())
        self._untold.clear()
        return taken
