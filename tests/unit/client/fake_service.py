"""A service made of canned answers, reached without a network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from client.library.versions import VERSION_HEADER
from planner.version import __version__

VERSION = {VERSION_HEADER: __version__}


class FakeService:
    """Answers in turn with what was queued for `METHOD path`; the last answer stays. Streams of
    events that were not queued are too many."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self._answers: dict[tuple[str, str], list[httpx.Response | Exception]] = {}

    def on(
        self,
        method: str,
        path: str,
        *contents: Any,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Queue JSON answers (or exceptions to raise, or whole answers)."""
        self._answers.setdefault((method, path), []).extend(
            content
            if isinstance(content, Exception | httpx.Response)
            else httpx.Response(
                status, content=json.dumps(content), headers={**VERSION, **(headers or {})}
            )
            for content in contents
        )

    def streams(self, path: str, *events: tuple[str, str, Any]) -> None:
        """Queue a stream of these events: name, id and data."""
        self.on("GET", path, httpx.Response(200, content=event_stream(events), headers=STREAM))

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._answer)

    def body(self, index: int = 0) -> Any:
        """The JSON body of a request."""
        return json.loads(self.requests[index].content)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        key = (request.method, request.url.path)
        if key not in self._answers and request.url.path.endswith("/events"):
            return httpx.Response(503, json=problem(503, "too_many_streams"), headers=VERSION)
        answers = self._answers[key]
        answer = answers[0] if len(answers) == 1 else answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, content=answer.content, headers=answer.headers)


STREAM = {**VERSION, "Content-Type": "text/event-stream; charset=utf-8"}


def event_stream(events: Iterable[tuple[str, str, Any]]) -> str:
    """Events as they come over the line."""
    told = (f"event: {name}\nid: {id_}\ndata: {json.dumps(data)}\n\n" for name, id_, data in events)
    return f": events follow\nretry: 2000\n\n{''.join(told)}"


def problem(status: int, code: str, path: str = "", message: str = "", remedy: str = "") -> Any:
    """A problem document as the service writes it."""
    errors = [{"path": path, "message": message, "remedy": remedy}] if path else []
    return {"title": "Refused", "status": status, "detail": message, "code": code, "errors": errors}


def job(state: str, **fields: Any) -> dict[str, Any]:
    """A job as the service shows it."""
    over = state not in ("queued", "running")
    return {
        "id": "j1",
        "kind": "pipeline",
        "name": None,
        "tags": [],
        "state": state,
        "cancel_requested": False,
        "cache": "miss",
        "queue_position": 1 if state == "queued" else None,
        "phase": None,
        "best_makespan_ns": None,
        "best_step_time_ns": None,
        "lower_bound_ns": None,
        "best_objective_bytes": None,
        "lower_bound_bytes": None,
        "gap": None,
        "finished_at": "2026-01-01T00:00:00Z" if over else None,
        **fields,
    }
