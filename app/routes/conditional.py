"""Conditional requests: entity tags and `If-None-Match` (RFC 9110)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Header, Response

from planner.version import __version__

_TAG = re.compile(r'(?:W/)?"([^"]*)"')
_DIGEST_BYTES = 12
NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "As the tag in `If-None-Match` says, nothing has changed."}
}


class Precondition:
    """What the client has already."""

    def __init__(self, if_none_match: str | None) -> None:
        self._any = (if_none_match or "").strip() == "*"
        opaque = _TAG.findall(if_none_match or "")
        # A compressed answer's tag ends with the name of its coding, and is of the same content.
        self._known = frozenset(tag.partition("-")[0] for tag in opaque)

    @property
    def is_given(self) -> bool:
        """Whether the client has something."""
        return self._any or bool(self._known)

    def holds(self, tag: str) -> bool:
        """Whether the client has what this tag stands for, which there has to be: `*` is any."""
        return self._any or self.names(tag)

    def names(self, tag: str) -> bool:
        """Whether it is among the tags that the client knows, so that there was such a thing."""
        found = _TAG.fullmatch(tag)
        return found is not None and found.group(1) in self._known


async def _precondition(
    if_none_match: Annotated[
        str | None, Header(description="Tags of what is known: 304 where one of them still holds.")
    ] = None,
) -> Precondition:
    return Precondition(if_none_match)


PreconditionDep = Annotated[Precondition, Depends(_precondition)]


def strong_tag(*parts: str) -> str:
    """The tag of what these parts decide, octet by octet, as this version writes it."""
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in (__version__, *parts):
        digest.update(part.encode())
        digest.update(b"\0")
    return f'"{digest.hexdigest()}"'


def weak_tag(*parts: str) -> str:
    """The same where the octets may differ in what does not matter."""
    return f"W/{strong_tag(*parts)}"


def tagged(tag: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The headers of an answer with this tag: kept by the client, and asked for again each time."""
    return {"ETag": tag, "Cache-Control": "private, no-cache", **(more or {})}


def not_modified(headers: Mapping[str, str]) -> Response:
    """304 with the headers that the whole answer would have."""
    return Response(status_code=304, headers=dict(headers))
