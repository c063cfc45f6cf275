"""Fewer garbage collections while a solve makes and drops very many operations."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG, MIDDLE, OLD = 200_000, 50, 50
"""Of what a solve makes next to nothing refers to itself in a circle, so that looking for circles
frees nothing; with the usual thresholds it takes most of the time that operations are made in."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Within it the collector runs seldom; afterwards as often as before.

    The thresholds are those of the whole process, so only for one that does a single solve at a
    time, as solver processes do.
    """
    before = gc.get_threshold()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    try:
        yield
    finally:
        gc.set_threshold(*before)
