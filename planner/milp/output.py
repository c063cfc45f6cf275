"""What a child process writes, as lines, read without blocking."""

from __future__ import annotations

import os
import selectors
import time
from collections import deque
from collections.abc import Callable

TAIL_LINES = 40


class OutputLines:
    """The lines that come out of a pipe. `tail` keeps the last of them; `is_open` until its end."""

    def __init__(self, fd: int, on_line: Callable[[str], None]) -> None:
        self.fd = fd
        os.set_blocking(fd, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(fd, selectors.EVENT_READ)
        self._rest = b""
        self._on_line = on_line
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self.is_open = True

    def pump(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` for output and hand on its complete lines; whether any came."""
        if not self.is_open:
            time.sleep(timeout_s)
            return False
        if not self._selector.select(timeout_s):
            return False
        chunk = os.read(self.fd, 1 << 16)
        if not chunk:
            self.is_open = False
            self._selector.close()
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not self.is_open and self._rest:
            lines.append(self._rest)
        for raw in lines:
            line = raw.decode("utf-8", "replace").rstrip()
            self.tail.append(line)
            self._on_line(line)
        return self.is_open
