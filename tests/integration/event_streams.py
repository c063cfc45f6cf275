"""A served API on a socket, and streams of events read from it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from tests.integration.helpers import eventually


@dataclass(frozen=True)
class Event:
    """One event as it was read."""

    name: str
    data: Any
    id: str | None


class EventStream:
    """An open stream; `next` waits for the next event."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.comments: list[str] = []
        self.retry_ms: int | None = None
        self._lines = response.iter_lines()

    def next(self) -> Event | None:
        """The next event, or None at the end of the stream."""
        fields: dict[str, str] = {}
        for line in self._lines:
            name, _, value = line.partition(": ")
            if not line:
                if "data" in fields:
                    return Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
                fields = {}
            elif not name:
                self.comments.append(value)
            elif name == "retry":
                self.retry_ms = int(value)
            else:
                fields[name] = value
        return None

    def rest(self) -> list[Event]:
        """All events up to the end of the stream."""
        return list(iter(self.next, None))

    def until(self, name: str) -> list[Event]:
        """The events up to the first of this name."""
        events = []
        while True:
            event = self.next()
            assert event is not None, "the stream ended"
            events.append(event)
            if event.name == name:
                return events


@contextmanager
def served(app: FastAPI) -> Iterator[httpx.Client]:
    """The application on a socket of this machine, served in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    eventually(lambda: server.started)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        with httpx.Client(base_url=address, timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


@contextmanager
def opened(
    client: httpx.Client,
    job_id: str,
    *,
    last_event_id: str | None = None,
    query: str = "",
    headers: Mapping[str, str] | None = None,
) -> Iterator[EventStream]:
    """The stream of a job's events."""
    sent = dict(headers or {})
    if last_event_id is not None:
        sent["Last-Event-ID"] = last_event_id
    with client.stream("GET", f"/v1/jobs/{job_id}/events{query}", headers=sent) as response:
        yield EventStream(response)


@contextmanager
def all_opened(
    client: httpx.Client, headers: Mapping[str, str] | None = None
) -> Iterator[EventStream]:
    """The stream of all jobs."""
    with client.stream("GET", "/v1/events", headers=headers) as response:
        yield EventStream(response)
