"""When a request is sent again: after a lost connection, and where a service asks for patience."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

BUSY_STATUSES = frozenset({429, 502, 503, 504})
"""Too many requests, and what says that the service is away for a moment."""


@dataclass(frozen=True)
class Retries:
    """How often and how patiently a request is sent again.

    Pauses double from `first_pause_s` up to `longest_pause_s`; of each a random share between half
    and all is taken, so that clients that were refused together do not come back together. Where
    the service says when to come again (`Retry-After`) that is the least. Nothing is sent again
    after a pause longer than `longest_retry_after_s`, nor more than `tries` times in all.
    """

    tries: int = 5
    first_pause_s: float = 0.25
    longest_pause_s: float = 8.0
    longest_retry_after_s: float = 60.0
    draw: Callable[[], float] = field(default=random.random, repr=False, compare=False)

    def begin(self) -> Trial:
        """For one request."""
        return Trial(self)

    def pause_s(self, number: int) -> float:
        """Before try `number` + 1, counted from 1, if the service says nothing."""
        whole_s = min(self.longest_pause_s, self.first_pause_s * 2.0 ** min(number - 1, 60))
        return whole_s * (0.5 + 0.5 * self.draw())


NO_RETRIES = Retries(tries=1)
"""The first answer counts, for whoever sits at a terminal and can try again."""


class Trial:
    """The tries of one request."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._made = 0

    def pause_after(self, outcome: httpx.Response | httpx.TransportError) -> float | None:
        """Seconds to wait before the next try; None if this outcome is the last one."""
        self._made += 1
        if self._made >= self._retries.tries:
            return None
        pause_s = self._retries.pause_s(self._made)
        if isinstance(outcome, httpx.TransportError):
            return None if isinstance(outcome, httpx.UnsupportedProtocol) else pause_s
        if outcome.status_code not in BUSY_STATUSES:
            return None
        asked_s = retry_after_s(outcome)
        if asked_s is None:
            return pause_s
        if asked_s > self._retries.longest_retry_after_s:
            return None
        return asked_s + pause_s


def retry_after_s(response: httpx.Response) -> float | None:
    """The seconds of `Retry-After`; None without one (the service writes no dates there)."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() else None
