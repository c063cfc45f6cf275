"""Notices when a solve holds more memory than it may."""

from __future__ import annotations

import time

from workers.memory import held_bytes

CHECK_S = 0.5
FAR_OVER = 1.2
"""Times the limit: a solve that holds so much gets no time to answer."""


class MemoryWatch:
    """Looks at a solver and all that it started, now and then; a limit of None never stops one."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes
        self._next_check = 0.0
        self._held_bytes = 0
        self.limit_exceeded: int | None = None
        """The limit, once it was exceeded."""

    def look(self, pid: int) -> None:
        """Take a measurement if one is due."""
        now = time.monotonic()
        if self._limit_bytes is None or now < self._next_check:
            return
        self._next_check = now + CHECK_S
        self._held_bytes = held_bytes(pid, self._limit_bytes)
        if self._held_bytes > self._limit_bytes:
            self.limit_exceeded = self._limit_bytes

    @property
    def is_far_over(self) -> bool:
        """Whether it has to be killed at once."""
        limit = self.limit_exceeded
        return limit is not None and self._held_bytes > FAR_OVER * limit
