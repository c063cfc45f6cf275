"""How a job or a batch is followed until it is over: what to ask next, for whoever asks.

A generator yields steps (`Send`, `Listen`, `Next`, `Sleep`, `Tell`) and is sent what came of each,
so that the same rules serve the synchronous and the asynchronous client, and tests without either.

A job is followed by its stream of events, and looked at whenever one ends. Where there is none to
be had (too many streams, the job is over), where streams end as soon as they begin (a proxy in
between), and for the last seconds before a deadline, it is polled: the service holds each poll
until something has changed (`Prefer: wait`, `If-None-Match`); one that does not is asked at growing
intervals.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import httpx

from client.errors import ApiError, ClientError, ServiceUnreachable, WaitTimeout
from client.library import requests
from client.library.events import Event
from client.library.requests import TERMINAL_STATES, Call, Document
from client.library.retries import BUSY_STATUSES

FIRST_POLL_S = 0.1
LONGEST_POLL_S = 1.0
HELD_POLL_S = 20
"""How long the service is asked to hold a poll."""
LOST_SERVICE_AFTER_S = 30.0
LEAST_STREAM_S = 30.0
"""A stream is looked at every 15 s at least, which is too coarse for the end of a short wait."""
SHORT_STREAM_S = 5.0
MOST_SHORT_STREAMS = 3
"""In a row; then it is polled."""
NOT_MODIFIED = 304


@dataclass(frozen=True)
class Send:
    """Make a request once; sent back is its answer (200 or 304), or the error."""

    call: Call


@dataclass(frozen=True)
class Listen:
    """Open a stream of events; sent back is None, or the error that there is none."""

    call: Call


@dataclass(frozen=True)
class Next:
    """Wait for the stream's next event; sent back is None once it has ended or was lost."""


@dataclass(frozen=True)
class Sleep:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class Tell:
    """Say how far it is."""

    document: Document


Step: TypeAlias = Send | Listen | Next | Sleep | Tell
Reply: TypeAlias = httpx.Response | ClientError | Event | None
Steps: TypeAlias = Generator[Step, Any, None]


class Deadline:
    """When waiting ends, if it does."""

    def __init__(
        self, timeout_s: float | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._ends = math.inf if timeout_s is None else clock() + timeout_s

    def now(self) -> float:
        """Of the same clock."""
        return self._clock()

    def left_s(self) -> float:
        """Seconds until then."""
        return self._ends - self._clock()


def follow_job(job_id: str, deadline: Deadline) -> Steps:
    """Tells the job each time that it has changed until it is over. Raises `WaitTimeout`, and
    `ServiceUnreachable` for a service that has been silent for 30 s."""
    is_over = yield from _by_stream(job_id, deadline)
    if not is_over:
        yield from _by_polls(
            lambda etag, wait_s: requests.status(job_id, etag=etag, wait_s=wait_s),
            lambda status: status["state"] in TERMINAL_STATES,
            f"job {job_id}",
            deadline,
        )


def follow_batch(batch_id: str, deadline: Deadline) -> Steps:
    """Tells the batch each time that it has changed until none of its jobs will change any more.
    Raises as `follow_job` does."""
    yield from _by_polls(
        lambda etag, _: requests.batch(batch_id, etag=etag),
        lambda view: bool(view["over"]),
        f"batch {batch_id}",
        deadline,
    )


def _by_stream(job_id: str, deadline: Deadline) -> Generator[Step, Any, bool]:
    """Whether the job is over; False where there is no stream that lasts, and near the deadline."""
    last_event_id: str | None = None
    last: Document | None = None
    short_streams = 0
    while deadline.left_s() > LEAST_STREAM_S:
        began = deadline.now()
        error = yield Listen(requests.events(job_id, last_event_id))
        if error is not None:
            return False
        while (event := (yield Next())) is not None and event.name != "reconnect":
            last_event_id = event.id or last_event_id
            if event.name == "state":
                last = event.data
                yield Tell(last)
                if last["state"] in TERMINAL_STATES:
                    return True
            if deadline.left_s() <= LEAST_STREAM_S:
                return False
        short_streams = short_streams + 1 if deadline.now() - began < SHORT_STREAM_S else 0
        # A proxy may have ended it, and what the stream would have said is not said.
        answer: httpx.Response | ClientError = yield Send(requests.status(job_id))
        if isinstance(answer, ClientError) or short_streams == MOST_SHORT_STREAMS:
            return False
        if (status := answer.json()) != last:
            last = status
            yield Tell(status)
        if status["state"] in TERMINAL_STATES:
            return True
        # Streams end together when a service does, and come back one by one.
        yield Sleep(FIRST_POLL_S * 2**short_streams * (1 + random.random()))
    return False


def _by_polls(
    call_of: Callable[[str | None, int], Call],
    is_over: Callable[[Document], bool],
    what: str,
    deadline: Deadline,
) -> Steps:
    etag: str | None = None
    pause_s, silent_since = FIRST_POLL_S, None
    while True:
        wait_s = 0 if etag is None else int(min(HELD_POLL_S, max(0.0, deadline.left_s())))
        answer: httpx.Response | ClientError = yield Send(call_of(etag, wait_s))
        if isinstance(answer, ClientError):
            silent_since = silent_since or deadline.now()
            if not _is_passing(answer) or deadline.now() - silent_since > LOST_SERVICE_AFTER_S:
                raise answer
        else:
            silent_since = None
            if answer.status_code != NOT_MODIFIED:
                document: Document = answer.json()
                yield Tell(document)
                if is_over(document):
                    return
                etag = answer.headers.get("etag")
        left_s = deadline.left_s()
        if left_s <= 0:
            raise WaitTimeout(f"{what} was not over in time; it goes on.")
        is_held = not isinstance(answer, ClientError) and "preference-applied" in answer.headers
        yield Sleep(min(left_s, (FIRST_POLL_S if is_held else pause_s) * _jitter()))
        pause_s = min(LONGEST_POLL_S, pause_s * 1.5)


def _is_passing(error: ClientError) -> bool:
    """Whether it may be gone in a moment: the service is restarting, or has much to do."""
    if isinstance(error, ApiError):
        return error.status in BUSY_STATUSES
    return isinstance(error, ServiceUnreachable)


def _jitter() -> float:
    return 0.75 + 0.5 * random.random()
