"""How the pool's processes learn that their worker is shutting down.

One byte of memory that the main process maps before it forks the pool. Setting it takes no lock,
so a signal handler may do it, and the solves in progress look at it several times a second.
"""

from __future__ import annotations

import mmap
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class ShutdownFlag:
    """Shared with the processes that are forked after it was made."""

    def __init__(self) -> None:
        self._byte = mmap.mmap(-1, 1)
        self._terminated = False

    def set(self) -> None:
        """Every process of the pool has to give back what it does."""
        self._byte[0] = 1

    def is_set(self) -> bool:
        """Whether this process has to."""
        return self._terminated or self._byte[0] == 1

    @contextmanager
    def instead_of_sigterm(self) -> Iterator[None]:
        """While it holds, SIGTERM to this process alone sets the flag for it, and no more.

        Service managers signal every process of a group at once; a solve in progress then ends
        as it would have if only the main process had been told.
        """

        def remember(number: int, frame: FrameType | None) -> None:
            self._terminated = True

        before = signal.signal(signal.SIGTERM, remember)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)
        if self._terminated:
            raise SystemExit(0)
