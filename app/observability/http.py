"""What is noted of every HTTP request: an id, a count, how long it took, and a line in the log."""

from __future__ import annotations

import logging
import re
import time
import uuid
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.observability import metrics
from app.observability.context import begin

logger = logging.getLogger("loadmaster.access")
REQUEST_ID = "X-Request-ID"
UNMATCHED = "unmatched"
CLIENT_CLOSED = 499
_SANE = re.compile(r"[A-Za-z0-9._\-]{1,64}")
# What is asked for all the time is written to the log only where it failed.
POLLED = re.compile(
    r"/(healthz|readyz|metrics|v1/events|v1/jobs/\{job_id\}(/events|/progress|/log)?"
    r"|v1/runs/\{run_id\}(/plan|/telemetry)?)"
)


class RequestObserver:
    """The outermost middleware, so that it sees the answers of all others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        # Not taken back afterwards: whoever answers for an exception still asks for the id.
        begin(request_id=request_id)
        header = (REQUEST_ID.lower().encode(), request_id.encode())
        began = time.perf_counter()
        status = CLIENT_CLOSED

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        except Exception:
            status = 500
            raise
        finally:
            _note(scope, status, time.perf_counter() - began)


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).get(REQUEST_ID, "")
    return given if _SANE.fullmatch(given) else uuid.uuid4().hex


def _note(scope: Scope, status: int, seconds: float) -> None:
    route = route_template(scope)
    method = scope["method"]
    is_stream = route.endswith("/events")
    metrics.http_answered(method, route, status, seconds, is_stream=is_stream)
    is_asking = method in ("GET", "HEAD") or route.endswith("/telemetry")
    quiet = status < 400 and is_asking and POLLED.fullmatch(route)
    level = logging.DEBUG if quiet else logging.INFO
    if logger.isEnabledFor(level):
        # Neither the query nor a header: both may hold secrets.
        path, duration_ms = quote(scope["path"]), round(seconds * 1000, 1)
        known = {"method": method, "path": path, "status": status, "duration_ms": duration_ms}
        logger.log(level, "%s %s %d in %s ms", method, path, status, duration_ms, extra=known)


def route_template(scope: Scope) -> str:
    """The template of the route that served a request: `/v1/jobs/{job_id}`."""
    path = getattr(scope.get("route"), "path", None)
    return UNMATCHED if path is None else str(path)
