"""Server-Sent Events, as the lines of a stream come."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

COMMENT = "comment"
"""The name of what only says that the stream is alive."""


@dataclass(frozen=True)
class Event:
    """One event of a stream, its data read as JSON."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    id: str | None = None


class EventReader:
    """Puts lines together, as the HTML standard says (section 9.2.6)."""

    def __init__(self) -> None:
        self._name = ""
        self._data: list[str] = []
        self._id: str | None = None

    def read(self, line: str) -> Event | None:
        """The event that ends with this line, without its end; None if none does."""
        if line.startswith(":"):
            return Event(COMMENT)
        if line:
            self._take(*line.partition(":"))
            return None
        event = self._event()
        self._name, self._data = "", []
        return event

    def _take(self, name: str, _: str, value: str) -> None:
        value = value.removeprefix(" ")
        if name == "event":
            self._name = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value

    def _event(self) -> Event | None:
        if not self._data:
            return None
        try:
            data = json.loads("\n".join(self._data))
        except ValueError:
            return None
        return Event(self._name, data, self._id) if isinstance(data, dict) else None
