"""What an importer returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Imported:
    """A document to be posted, or a part of one, and what was assumed or is still missing."""

    document: dict[str, Any]
    notes: list[str] = field(default_factory=list)
