"""What is refused before any route looks at it, and the header fields of every answer."""

from __future__ import annotations

from urllib.parse import parse_qsl

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.error_handlers import problem_response
from app.errors import ForeignOrigin, KeyInAddress, LocalOnly, ServiceError, UnknownHost
from app.security.addresses import (
    Host,
    is_loopback,
    parse_host,
    parse_origin,
    same_address,
    with_port,
)
from app.security.gate import ANSWER_HEADERS
from app.security.headers import security_headers
from app.security.keys import holds_key
from app.settings import Settings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOCAL_HOSTS = (Host("localhost", None), Host("127.0.0.1", None), Host("::1", None))
NAMES_OF_KEYS = frozenset(
    {"api_key", "api-key", "apikey", "key", "token", "access_token", "authorization"}
)

CORS_REQUEST_HEADERS = (
    "Authorization",
    "Cache-Control",
    "Content-Type",
    "Idempotency-Key",
    "If-None-Match",
    "Last-Event-ID",
    "Prefer",
    "X-Request-ID",
)
CORS_ANSWER_HEADERS = (
    "Content-Disposition",
    "ETag",
    "Location",
    "Preference-Applied",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "X-Request-ID",
)


class Guard:
    """ASGI middleware, without a task or buffer of its own, so that answers stream through it.

    Without keys nothing but the browser's rules and these keep a web page from using a service on
    the reader's own machine: the service answers only to its own names, which a page that points
    its own name at 127.0.0.1 does not know, and takes changes only from its own pages.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._without_keys = settings.authentication == "off"
        self._anyone = settings.allow_anyone_on_the_network
        self._hosts = _hosts(settings)
        self._origins = frozenset(settings.allowed_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in security_headers(scope["path"]):
                    headers.setdefault(name, value)
                message["headers"].extend(scope.get(ANSWER_HEADERS, ()))
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        else:
            response = problem_response(Request(scope), refusal)
            await response(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> ServiceError | None:
        if _has_key_in_address(scope["query_string"]):
            return KeyInAddress(
                "Send the key as `Authorization: Bearer …`, and revoke this one if it was one: "
                "addresses are kept in logs and histories."
            )
        headers = Headers(scope=scope)
        if self._without_keys and not self._anyone and not _is_local(scope):
            return LocalOnly(
                "It asks for no key. Use it on its own machine, or have it set up with "
                "LOADMASTER_AUTHENTICATION=keys."
            )
        host = _host_of(headers)
        if self._hosts is not None and (host is None or not self._goes_by(host, scope)):
            return UnknownHost("Use localhost, or add the name to LOADMASTER_ALLOWED_HOSTS.")
        if self._without_keys and scope["method"] not in SAFE_METHODS:
            return self._foreign_origin(headers, host, scope)
        return None

    def _goes_by(self, host: Host, scope: Scope) -> bool:
        assert self._hosts is not None
        if host in self._hosts or Host(host.name, None) in self._hosts:
            return True
        server = scope.get("server")
        return server is not None and same_address(host.name, server[0])

    def _foreign_origin(
        self, headers: Headers, host: Host | None, scope: Scope
    ) -> ForeignOrigin | None:
        origin = headers.get("origin")
        if origin is None:
            site = headers.get("sec-fetch-site", "none")
            if site in ("none", "same-origin"):
                return None
        elif origin in self._origins:
            return None
        elif host is not None:
            own = parse_origin(origin)
            scheme = origin.partition(":")[0]
            if own is not None and own == with_port(host, scheme):
                return None
        return ForeignOrigin(
            "A page of another origin sent this. Add the origin to LOADMASTER_ALLOWED_ORIGINS if "
            "it may."
        )


def protect(app: FastAPI, settings: Settings) -> None:
    """Put the guard around an application, and in it the answers to other origins' browsers."""
    if settings.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.allowed_origins,
            allow_methods=("GET", "POST", "PATCH", "DELETE"),
            allow_headers=CORS_REQUEST_HEADERS,
            expose_headers=CORS_ANSWER_HEADERS,
        )
    app.add_middleware(Guard, settings=settings)


def _hosts(settings: Settings) -> frozenset[Host] | None:
    """The names that are answered to; None = any, since a key is what counts."""
    given = [parse_host(text) for text in settings.allowed_hosts]
    named = [host for host in given if host is not None]
    if settings.authentication == "keys" and not named:
        return None
    return frozenset((*LOCAL_HOSTS, *named))


def _host_of(headers: Headers) -> Host | None:
    given = headers.getlist("host")
    return parse_host(given[0]) if len(given) == 1 else None


def _is_local(scope: Scope) -> bool:
    """Whether the request arrived at a loopback address, or over a Unix socket."""
    server = scope.get("server")
    return server is not None and (server[1] is None or is_loopback(server[0]))


def _has_key_in_address(query: bytes) -> bool:
    if not query:
        return False
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    return any(
        name.lower() in NAMES_OF_KEYS or holds_key(name) or holds_key(value)
        for name, value in pairs
    )
