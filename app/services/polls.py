"""Reading single rows for many who ask at once.

A thread for each who asks would cost more than the read, and those that run would take the
interpreter and the connections from those that wait. So a few readers read for all: whoever comes
while all of them are busy waits, and the next reader that is free reads for everybody who waits, by
one query.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextvars import Context
from typing import Generic, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.database import Database
from app.repositories.job_rows import JobReader, JobRow

READERS = 2
"""One goes on where a connection of the other's leads nowhere."""
RowT = TypeVar("RowT")


class SharedReads(ABC, Generic[RowT]):
    """The reads of one process of rows that have an id. It belongs to the event loop that asks."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Threads of their own: polls neither take those of others nor wait for them.
        self._threads = CapacityLimiter(READERS)
        self._readers: set[asyncio.Task[None]] = set()
        # Readers outlive the request that happened to come first.
        self._context = Context()
        self._waiting: dict[str, asyncio.Future[RowT | None]] = {}

    async def row(self, row_id: str) -> RowT | None:
        """The row as it is now, whoever's it is; None if there is none.

        Raises `PoolTimeout` if it is not read within the time in which a connection has to be had.
        """
        read = self._waiting.get(row_id)
        if read is None:
            read = self._waiting[row_id] = asyncio.get_running_loop().create_future()
            self._start_reader()
        done, _ = await asyncio.wait({read}, timeout=self._database.timeout_s)
        if not done:
            raise PoolTimeout("too many polls wait for the database")
        return read.result()

    def _start_reader(self) -> None:
        if len(self._readers) < READERS:
            loop = asyncio.get_running_loop()
            self._readers.add(loop.create_task(self._serve(), context=self._context))

    async def _serve(self) -> None:
        while self._waiting:
            reads, self._waiting = self._waiting, {}
            try:
                rows = await run_sync(self._read, tuple(reads), limiter=self._threads)
            except Exception as error:
                for read in reads.values():
                    read.set_exception(error)
                    # Those who asked may have gone by now, which is not worth a line in the log.
                    read.exception()
            else:
                for row_id, read in reads.items():
                    read.set_result(rows.get(row_id))
        # Not in a callback, which would come too late for a poll that comes right now.
        reader = asyncio.current_task()
        assert reader is not None
        self._readers.remove(reader)

    @abstractmethod
    def _read(self, row_ids: Collection[str]) -> Mapping[str, RowT]:
        """Those of these rows that there are."""


class Polls(SharedReads[JobRow]):
    """The reads of jobs."""

    def _read(self, row_ids: Collection[str]) -> Mapping[str, JobRow]:
        with self._database.looking() as connection:
            return {row.id: row for row in JobReader(connection).some(row_ids)}
