"""Who comes in: the caller of a request by its key, and whether it asks too often."""

from __future__ import annotations

from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import Scope as RequestScope

from app.callers import ANYBODY, Caller
from app.errors import NotAuthenticated, TooManyRequests
from app.security.addresses import client_of
from app.security.rate_limit import RateLimiter
from app.services.keys import Doorkeeper
from app.settings import Settings

ANSWER_HEADERS = "loadmaster.headers"
"""Where the request's scope holds header fields for its answer, whatever that will be."""


class Gate:
    """Admits callers, one call per request."""

    def __init__(self, settings: Settings, doorkeeper: Doorkeeper, limiter: RateLimiter) -> None:
        self._asks_for_keys = settings.authentication == "keys"
        self._requests_per_minute = settings.requests_per_minute
        self._doorkeeper = doorkeeper
        self._limiter = limiter

    async def admit(self, request: RequestScope, key: str | None) -> Caller:
        """Whom the request speaks for. Raises `NotAuthenticated` or `TooManyRequests`."""
        if not self._asks_for_keys:
            self._count(request, _client(request), self._requests_per_minute)
            return ANYBODY
        if key is None:
            self._count(request, _client(request), self._requests_per_minute)
            raise _not_authenticated("Send a key: `Authorization: Bearer lm_…`.")
        if len(Headers(scope=request).getlist("authorization")) > 1:
            self._count(request, _client(request), self._requests_per_minute)
            raise _not_authenticated(
                "Send a single Authorization header field.", ', error="invalid_request"'
            )
        is_known, visitor = self._doorkeeper.remembered(key)
        if not is_known:
            visitor = await run_in_threadpool(self._doorkeeper.look_up, key)
        if visitor is None:
            self._count(request, _client(request), self._requests_per_minute)
            raise _not_authenticated(
                "The key is unknown, revoked or has expired.", ', error="invalid_token"'
            )
        limit = visitor.requests_per_minute
        if limit is None:
            limit = self._requests_per_minute
        self._count(request, f"key:{visitor.caller.actor}", limit)
        return visitor.caller

    def _count(self, request: RequestScope, who: str, limit: int) -> None:
        if not limit:
            return
        standing = self._limiter.hit(who, limit)
        request[ANSWER_HEADERS] = standing.headers()
        if standing.exceeded:
            raise TooManyRequests(
                f"At most {limit} requests a minute; ask again in {standing.reset_s} s.",
                headers={"Retry-After": str(standing.reset_s)},
            )


def _client(request: RequestScope) -> str:
    client = request.get("client")
    return f"client:{client_of(client[0] if client else None)}"


def _not_authenticated(detail: str, reason: str = "") -> NotAuthenticated:
    challenge = f'Bearer realm="loadmaster"{reason}'
    return NotAuthenticated(detail, headers={"WWW-Authenticate": challenge})
