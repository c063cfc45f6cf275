"""How often a caller may ask: so many requests in each minute of the clock.

Requests are counted in this process, so that none ever waits for another. Where there is a broker,
a thread adds what it counted to a count that all processes share and learns theirs, once a second;
while the broker is away each process counts for itself.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass

from limits.storage import RedisStorage
from redis.exceptions import RedisError

from app.settings import Settings

logger = logging.getLogger(__name__)

WINDOW_S = 60
SHARE_EVERY_S = 1.0
AFTER_FAILURE_S = 10.0
MOST_CALLERS = 100_000
KEY_PREFIX = "loadmaster-requests"


@dataclass(frozen=True)
class Standing:
    """How a caller stands: `left` of `limit` requests in the next `reset_s` seconds."""

    limit: int
    left: int
    reset_s: int
    exceeded: bool

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The fields of the IETF's draft-ietf-httpapi-ratelimit-headers, version 10."""
        return [
            (b"ratelimit-policy", f'"requests";q={self.limit};w={WINDOW_S}'.encode()),
            (b"ratelimit", f'"requests";r={self.left};t={self.reset_s}'.encode()),
        ]


@dataclass
class _Count:
    total: int = 0
    unshared: int = 0


class RateLimiter:
    """Counts the requests of each caller."""

    def __init__(self, settings: Settings) -> None:
        self._window = 0
        self._counts: dict[str, _Count] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._storage = _shared_storage(settings)

    def hit(self, caller: str, limit: int) -> Standing:
        """Count a request."""
        now = time.time()
        window = int(now // WINDOW_S)
        with self._lock:
            if window != self._window:
                self._window, self._counts = window, {}
            count = self._counts.get(caller)
            if count is None:
                count = _Count()
                # More callers than can be remembered go uncounted rather than unserved.
                if len(self._counts) < MOST_CALLERS:
                    self._counts[caller] = count
            count.total += 1
            count.unshared += 1
            total = count.total
        reset_s = max(1, round((window + 1) * WINDOW_S - now))
        return Standing(limit, max(0, limit - total), reset_s, total > limit)

    def start(self) -> None:
        """Begin to share the counts, if there is with whom."""
        if self._storage is not None:
            self._thread = threading.Thread(target=self._run, name="rate-limit", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread; what it has not shared is lost."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=2)

    def share(self) -> None:
        """Add what was counted here to the shared counts, and learn those. Raises `RedisError` or
        `OSError` where that is not possible; what was counted is then kept for the next time."""
        assert self._storage is not None
        with self._lock:
            window, counts = self._window, self._counts
            pending = [(caller, count) for caller, count in counts.items() if count.unshared]
        for caller, count in pending:
            with self._lock:
                amount, count.unshared = count.unshared, 0
            try:
                total = self._storage.incr(f"{KEY_PREFIX}:{window}:{caller}", 2 * WINDOW_S, amount)
            except (RedisError, OSError):
                with self._lock:
                    count.unshared += amount
                raise
            with self._lock:
                count.total = max(count.total, total + count.unshared)

    def _run(self) -> None:
        pause_s = SHARE_EVERY_S
        while not self._stop.wait(pause_s):
            try:
                self.share()
                pause_s = SHARE_EVERY_S
            except (RedisError, OSError) as error:
                if pause_s != AFTER_FAILURE_S:
                    logger.warning("requests are counted per process for now: %s", error)
                pause_s = AFTER_FAILURE_S


def _shared_storage(settings: Settings) -> RedisStorage | None:
    if settings.broker_url is None:
        return None
    url = settings.broker_url.replace("redis+socket://", "redis+unix://", 1)
    if not url.startswith(("redis://", "rediss://", "redis+unix://")):
        return None
    timeout_s = settings.broker_timeout_s
    return RedisStorage(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
