"""What log lines say beside their message: the request, the tenant, the job, the solve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

Fields = dict[str, str | int]

# One dict per request, which whatever serves it adds to: threads that a request is served in get
# a copy of its context, and with it the same dict.
_current: ContextVar[Fields | None] = ContextVar("log_fields", default=None)


def fields() -> Mapping[str, str | int]:
    """The fields of the request or attempt that is being worked on."""
    return _current.get() or {}


def begin(**values: str | int) -> None:
    """A request begins, with these fields and no others."""
    _current.set(values)


def bind(**values: str | int) -> None:
    """Add fields to those of the request or attempt that is being worked on."""
    current = _current.get()
    if current is None:
        _current.set(values)
    else:
        current.update(values)


@contextmanager
def bound(**values: str | int) -> Iterator[None]:
    """Add fields until the block ends."""
    token = _current.set({**fields(), **values})
    try:
        yield
    finally:
        _current.reset(token)


def request_id() -> str | None:
    """The id of the request that is being served."""
    value = fields().get("request_id")
    return None if value is None else str(value)
