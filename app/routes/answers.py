"""Responses that carry a stored JSON document as it is."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Response

from app.schemas.jobs import JobView
from app.services.job_views import accepted_view
from app.services.jobs import JobOutcome

JSON = "application/json"


def json_text(text: str, status_code: int = 200) -> Response:
    """Stored JSON, neither parsed nor written again."""
    return Response(text, status_code=status_code, media_type=JSON)


def submitted(outcome: JobOutcome, *, waited_s: float) -> Response:
    """202 while the job is not over, else 200 with its result or error."""
    view = outcome.view
    headers = {"Location": view.links.self, "Vary": "Prefer"}
    if waited_s:
        headers["Preference-Applied"] = f"wait={waited_s:g}"
    if not view.state.is_over:
        headers["Retry-After"] = "1"
        body = accepted_view(view).model_dump_json()
        return Response(body, status_code=202, headers=headers, media_type=JSON)
    return Response(_over(view, outcome), headers=headers, media_type=JSON)


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
