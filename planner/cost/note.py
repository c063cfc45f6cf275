"""One assumption of an answer."""

from __future__ import annotations

from typing import TypedDict


class Note(TypedDict):
    """What is assumed, its value, and what it rests on."""

    what: str
    value: str
    basis: str


def note(what: str, value: str, basis: str) -> Note:
    """An assumption in words."""
    return {"what": what, "value": value, "basis": basis}
