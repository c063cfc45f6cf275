"""The path below which a proxy serves the API.

Requests come with that prefix or without it, as the proxy likes; everything below sees paths
without it. What the service says of itself has the prefix, so that clients can follow it.
"""

from __future__ import annotations

from contextvars import ContextVar

from starlette.types import ASGIApp, Receive, Scope, Send

# Set for each request rather than handed down: views are made far below the routes.
_prefix: ContextVar[str] = ContextVar("root_path", default="")


def public_path(path: str) -> str:
    """A path of the service as the client of this request has to write it."""
    return _prefix.get() + path


class BelowRootPath:
    """ASGI middleware, to be the outermost, that takes the prefix off the path.

    The prefix is the setting's, or what the server was told (`uvicorn --root-path`).
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._own = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on without the prefix, and remember it."""
        prefix = self._own or str(scope.get("root_path", "")).rstrip("/")
        if prefix and scope["type"] == "http":
            path = scope["path"]
            own = path[len(prefix) :] if f"{path}/".startswith(f"{prefix}/") else path
            # The slash keeps the router from taking the prefix off a second time; what shows the
            # prefix leaves the slash out.
            scope = {**scope, "root_path": f"{prefix}/", "path": own or "/"}
            _prefix.set(prefix)
        await self._app(scope, receive, send)
