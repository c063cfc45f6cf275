"""Responses that carry a document as it is stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
from fastapi import Response
from starlette.types import Receive, Scope, Send

from app.schemas.jobs import JobView
from app.services.job_views import accepted_view
from app.services.jobs import JobOutcome

SLICE_BYTES = 2**17


class Sliced(Response):
    """A long body leaves in slices, and between them others are served: to compress megabytes at
    once would hold up every request of the process."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        if len(self.body) <= SLICE_BYTES:
            await super().__call__(scope, receive, send)
            return
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for begin in range(0, len(self.body), SLICE_BYTES):
            part = bytes(self.body[begin : begin + SLICE_BYTES])
            more = begin + SLICE_BYTES < len(self.body)
            await send({"type": "http.response.body", "body": part, "more_body": more})
            await anyio.lowlevel.checkpoint()


class JsonText(Sliced):
    """JSON text as it is."""

    media_type = "application/json"


def json_text(text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Stored JSON, neither parsed nor written again."""
    return JsonText(text, headers=headers)


def submitted(outcome: JobOutcome, *, waited_s: float) -> Response:
    """202 while the job is not over, else 200 with its result or error."""
    view = outcome.view
    headers = {"Location": view.links.self, "Vary": "Prefer"}
    if waited_s:
        headers["Preference-Applied"] = f"wait={waited_s:g}"
    if not view.state.is_over:
        headers["Retry-After"] = str(outcome.retry_after_s or 1)
        body = accepted_view(view).model_dump_json()
        return JsonText(body, status_code=202, headers=headers)
    return JsonText(_over(view, outcome), headers=headers)


def _over(view: JobView, outcome: JobOutcome) -> str:
    known: dict[str, Any] = {
        "id": view.id,
        "state": view.state,
        "cache": view.cache,
        "links": view.links.model_dump(),
    }
    if outcome.error is not None:
        return json.dumps({**known, "result": None, "error": outcome.error})
    # The result may have megabytes; it is stored as JSON and goes out as it is.
    return f'{json.dumps(known)[:-1]}, "result": {outcome.result or "null"}}}'
