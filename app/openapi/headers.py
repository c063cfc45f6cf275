"""The header fields of answers, as the document describes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Header = dict[str, Any]


def _field(description: str, *, required: bool = False, kind: str = "string") -> Header:
    return {"description": description, "required": required, "schema": {"type": kind}}


FIELDS: dict[str, Header] = {
    "X-Request-ID": _field("The id of the request in the service's log.", required=True),
    "RateLimit": _field('What is left of this minute\'s requests: `"requests";r=5999;t=60`.'),
    "RateLimit-Policy": _field('How many requests a minute has: `"requests";q=6000;w=60`.'),
    "Location": _field("The address of what was made.", required=True),
    "Retry-After": _field("Seconds after which to ask again.", kind="integer"),
    "ETag": _field("For `If-None-Match`.", required=True),
    "WWW-Authenticate": _field("How to send a key.", required=True),
    "Preference-Applied": _field("The wait that was granted: `wait=N`."),
    "Idempotency-Replayed": _field(
        "`true` if an earlier request with this `Idempotency-Key` made it."
    ),
}


def add_headers(document: dict[str, Any]) -> None:
    """Describe the fields of every answer."""
    document["components"]["headers"] = FIELDS
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                answer["headers"] = {
                    name: {"$ref": f"#/components/headers/{name}"}
                    for name in _names(path, operation, status)
                }


def _names(path: str, operation: dict[str, Any], status: str) -> Iterator[str]:
    parameters = {parameter["name"] for parameter in operation.get("parameters", ())}
    yield "X-Request-ID"
    if "429" in operation["responses"]:
        yield from ("RateLimit", "RateLimit-Policy")
    if status == "401":
        yield "WWW-Authenticate"
    if status in ("202", "429", "503") or (status == "200" and path.endswith("_id}")):
        yield "Retry-After"
    if status in ("201", "202"):
        yield "Location"
    if status in ("200", "304") and "if-none-match" in parameters:
        yield "ETag"
    if status in ("200", "202") and "prefer" in parameters:
        yield "Preference-Applied"
    if status in ("200", "202") and "idempotency-key" in parameters:
        yield "Idempotency-Replayed"
