"""Answers that take much work of a core: few at a time, and none for a client that has gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import Request

from app.errors import HttpError

CLIENT_HAS_GONE = 499
T = TypeVar("T")


async def worked_out(request: Request, limiter: CapacityLimiter, work: Callable[[], T]) -> T:
    """What the work comes to, in a thread, once the limiter has room for it."""
    async with limiter:
        # Whoever asked may have waited for this and given up; work begun is not stopped.
        if await request.is_disconnected():
            raise HttpError(CLIENT_HAS_GONE, "Nobody waits for the answer any more.", None)
        return await run_sync(work)
