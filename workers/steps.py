"""Which progress of a solve is worth an event."""

from __future__ import annotations

from app.services.attempts import Progress

SPACING = 400
"""Events of one attempt are at least this part of the solver time apart: all at first, and in an
hour some 1,400."""


class Steps:
    """Thins out the steps of one attempt; what was left out comes with the next one noted."""

    def __init__(self, spent_ms: int) -> None:
        self._noted_ms = spent_ms
        self._is_pending = False

    def is_due(self, progress: Progress) -> bool:
        """Whether an event is to be noted with this progress."""
        self._is_pending |= progress.improved or progress.phase is not None
        due = self._is_pending and progress.spent_ms * (1 - 1 / SPACING) >= self._noted_ms
        if due:
            self._noted_ms, self._is_pending = progress.spent_ms, False
        return due
