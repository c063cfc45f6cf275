"""Waiting for a job inside a request, without holding a thread or a connection meanwhile."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
Seen = TypeVar("Seen")
_WAIT = re.compile(r"wait\s*=\s*\"?(\d{1,9})\"?", re.IGNORECASE)


def wanted_wait_s(prefer: str | None, cap_s: float) -> float:
    """Seconds of ``Prefer: wait=N`` (RFC 7240), capped; 0 without one."""
    for preference in (prefer or "").split(","):
        match = _WAIT.fullmatch(preference.partition(";")[0].strip())
        if match is not None:
            return min(float(match.group(1)), cap_s)
    return 0.0


class Waits:
    """The waits of one process."""

    def __init__(self) -> None:
        self._has_ended = False

    def end(self) -> None:
        """Answer whoever waits with what there is, and keep nobody waiting any more: a server that
        is told to end waits for its requests, and aborts those that take too long."""
        self._has_ended = True

    async def wait_until(self, is_over: Callable[[], Awaitable[bool]], seconds: float) -> None:
        """Ask at growing intervals until the answer is yes or the time has passed."""
        if seconds > 0:
            await self.look_until(is_over, bool, seconds)

    async def look_until(
        self, look: Callable[[], Awaitable[Seen]], is_enough: Callable[[Seen], bool], seconds: float
    ) -> Seen:
        """Look, and at growing intervals again until that is enough or the time has passed."""
        deadline = time.monotonic() + seconds
        pause_s = FIRST_PAUSE_S
        while True:
            seen = await look()
            left_s = deadline - time.monotonic()
            if left_s <= 0 or self._has_ended or is_enough(seen):
                return seen
            await anyio.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)
