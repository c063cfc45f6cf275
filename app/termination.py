"""Hear of a termination before the server has closed its connections."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def on_termination(callback: Callable[[], None]) -> Iterator[None]:
    """Call back in the running loop when the process is told to end.

    A server waits for open responses before it lets the application know, and streams would keep
    it waiting until its patience ends. Its own handlers of the signals are called as before.
    Nothing is done outside of the main thread, where signals cannot be handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(callback)
        before[number](number, frame)

    handled = [number for number, handler in before.items() if callable(handler)]
    for number in handled:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in handled:
            if signal.getsignal(number) is handle:
                signal.signal(number, before[number])
