"""The events of a job, from where a client left off, and those of all jobs of a tenant."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel

from app.callers import Caller
from app.database import UNREACHABLE, Database
from app.errors import InvalidRequest, JobNotFound
from app.repositories.news import LogLine, NewsReader, Step
from app.schemas.jobs import JobView, ProgressStep
from app.services.job_views import job_view, progress_step, row_of, version_of
from app.services.watches import TenantWatch, Watch

MOST_STEPS, MOST_LINES = 500, 1000
"""What is read at a time."""
LONGEST_STREAM_S = 600.0
UNREACHABLE_PAUSE_S = 2.0
LOOK_AT_KEY_EVERY_S = 1.0
"""A look costs nothing while the process remembers the key."""
KEY_IS_OVER = "the key is no longer valid"
LASTED = "the stream has lasted long enough"
SERVICE_ENDS = "the service ends"
END = "end"
_ID = re.compile(r"(\d{1,9})-(\d{1,9})-([0-9a-f]*|end)")


@dataclass(frozen=True)
class Position:
    """What a client knows: the steps and log lines before these numbers, and a version of the
    job's view, or that the job is over. Written as the id of each event."""

    step: int = 0
    line: int = 0
    version: str = ""

    @classmethod
    def read(cls, last_event_id: str | None) -> Position:
        """From a `Last-Event-ID`. Raises `InvalidRequest`."""
        if not last_event_id:
            return cls()
        found = _ID.fullmatch(last_event_id)
        if found is None:
            raise InvalidRequest.of(
                "Last-Event-ID",
                "is no id of an event of this service.",
                "Send the id of the last event, or leave the header out.",
            )
        return cls(int(found.group(1)), int(found.group(2)), found.group(3))

    def __str__(self) -> str:
        return f"{self.step}-{self.line}-{self.version}"

    @property
    def is_start(self) -> bool:
        """Whether nothing is known."""
        return self == Position()


@dataclass(frozen=True)
class JobEvent:
    """One event: its name, its data, and, where a stream can go on, what a client knows that has
    it."""

    name: str
    data: dict[str, Any] | BaseModel
    position: Position | None = None


@dataclass(frozen=True)
class News:
    """What a client that was at a position does not know yet."""

    events: tuple[JobEvent, ...]
    is_over: bool
    # There is more than what was read at a time.
    goes_on: bool


NO_NEWS = News((), is_over=False, goes_on=False)
IsAdmitted = Callable[[], Awaitable[bool]]
"""Whether whoever asked would still be let in."""


class JobEvents:
    """Reads the news of jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def since(self, caller: Caller, job_id: str, position: Position, *, with_log: bool) -> News:
        """The events after a position, in one transaction."""
        with self._database.looking() as connection:
            # Read first: what a job that is over did is all there by then.
            row = row_of(connection, caller, job_id)
            reader = NewsReader(connection)
            steps = reader.steps(row, position.step, MOST_STEPS)
            lines = reader.lines(row, position.line, MOST_LINES) if with_log else []
        goes_on = len(steps) == MOST_STEPS or len(lines) == MOST_LINES
        view = None if goes_on else job_view(row)
        told = [(step, progress_step(row, step)) for step in steps]
        events = tuple(_events(position, told, lines, view))
        return News(events, is_over=row.is_over, goes_on=goes_on)


def _events(
    position: Position,
    steps: Sequence[tuple[Step, ProgressStep]],
    lines: Sequence[LogLine],
    view: JobView | None,
) -> Iterator[JobEvent]:
    for step, data in steps:
        position = replace(position, step=step.seq + 1)
        yield JobEvent("progress", data, position)
    if lines:
        position = replace(position, line=lines[-1].seq + 1)
        log = {"offset": lines[0].seq, "lines": [entry.line for entry in lines]}
        yield JobEvent("log", {**log, "next_offset": position.line}, position)
    if view is None:
        return
    if position.version not in (version_of(view), END):
        position = replace(position, version=version_of(view))
        yield JobEvent("state", view, position)
    if view.state.is_over and position.version != END:
        over = {"state": view.state, "links": view.links.model_dump()}
        yield JobEvent("end", over, replace(position, version=END))


async def stream(
    since: Callable[[Position], News], watch: Watch, position: Position, is_admitted: IsAdmitted
) -> AsyncIterator[JobEvent]:
    """The events of a job until it is over; or until a `reconnect`, which asks the client to come
    again with the id of its last event: when the service ends, when the key it came with no
    longer holds, and after ten minutes.

    Between events it holds neither a thread nor a connection.
    """
    ends = time.monotonic() + LONGEST_STREAM_S
    has_to_read = True
    while not watch.is_ended:
        pause_s, news = LOOK_AT_KEY_EVERY_S, NO_NEWS
        try:
            if not await is_admitted():
                yield _reconnect(KEY_IS_OVER, position)
                return
            if has_to_read:
                news = await run_in_threadpool(since, position)
                has_to_read = news.goes_on
        except UNREACHABLE:
            pause_s, has_to_read = UNREACHABLE_PAUSE_S, True
        except JobNotFound:
            yield _reconnect("the job was removed", position)
            return
        for event in news.events:
            yield event
            position = event.position or position
        if news.goes_on:
            continue
        if news.is_over:
            return
        left_s = ends - time.monotonic()
        if left_s <= 0:
            yield _reconnect(LASTED, position)
            return
        has_to_read |= await watch.wait(min(pause_s, left_s))
    yield _reconnect(SERVICE_ENDS, position)


async def stream_of_all(watch: TenantWatch, is_admitted: IsAdmitted) -> AsyncIterator[JobEvent]:
    """A tenant's jobs as they are made and change, until a `reconnect`: when the service ends, when
    the key no longer holds, after ten minutes, and when the client reads too slowly."""
    ends = time.monotonic() + LONGEST_STREAM_S
    while not watch.is_ended:
        pause_s = LOOK_AT_KEY_EVERY_S
        try:
            if not await is_admitted():
                yield _reconnect(KEY_IS_OVER)
                return
        except UNREACHABLE:
            pause_s = UNREACHABLE_PAUSE_S
        for row in watch.take():
            yield JobEvent("job", job_view(row))
        if watch.is_behind:
            yield _reconnect("the changes were read too slowly")
            return
        left_s = ends - time.monotonic()
        if left_s <= 0:
            yield _reconnect(LASTED)
            return
        await watch.wait(min(pause_s, left_s))
    yield _reconnect(SERVICE_ENDS)


def _reconnect(reason: str, position: Position | None = None) -> JobEvent:
    return JobEvent("reconnect", {"reason": reason}, position)
