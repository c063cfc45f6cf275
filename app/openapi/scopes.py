"""Which scopes of a key each operation takes, read from what its route depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import BaseRoute

from app.dependencies import NEEDED_SCOPES

SCHEME = "HTTPBearer"


def add_scopes(document: dict[str, Any], routes: Sequence[BaseRoute]) -> None:
    """Name them in `security`, where OpenAPI 3.1 has the roles that an operation needs; of several
    a key has to have one."""
    for context in iter_route_contexts(routes):
        route = context.route
        # Of the context, since routers are included with dependencies of their own.
        dependant = getattr(context, "dependant", None)
        if not isinstance(route, APIRoute) or not route.include_in_schema:
            continue
        assert isinstance(dependant, Dependant)
        for method in route.methods or ():
            operation = document["paths"][route.path_format][method.lower()]
            if "security" in operation:
                operation["security"] = [
                    {SCHEME: [scope]}
                    for call in _calls(dependant)
                    for scope in NEEDED_SCOPES.get(call, ())
                ]


def _calls(dependant: Dependant) -> Iterator[Any]:
    for part in dependant.dependencies:
        yield part.call
        yield from _calls(part)
