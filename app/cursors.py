"""Opaque cursors of a listing: where the next page begins."""

from __future__ import annotations

import base64
import binascii

from app.errors import InvalidRequest


def encode_cursor(created_at: int, job_id: str) -> str:
    """A cursor after the job with this instant (milliseconds) and id."""
    return base64.urlsafe_b64encode(f"{created_at}:{job_id}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> tuple[int, str]:
    """The instant and id that a page follows. Raises `InvalidRequest`."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        created_at, _, job_id = text.partition(":")
        if created_at.isdecimal() and len(created_at) <= 15 and job_id.isprintable():
            return int(created_at), job_id
    except (ValueError, binascii.Error):
        pass
    raise InvalidRequest.of(
        "cursor", "is not a cursor of this listing.", "Use `next_cursor` of the page before."
    )
