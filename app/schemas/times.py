"""Instants of the database as the API shows them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(milliseconds: int | None) -> datetime | None:
    """Milliseconds since 1970 as an aware UTC time."""
    return None if milliseconds is None else EPOCH + timedelta(milliseconds=milliseconds)


def known_instant(milliseconds: int) -> datetime:
    """The same for an instant that is never missing."""
    return EPOCH + timedelta(milliseconds=milliseconds)
