"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable

GIB = 2**30
NS_PER_MS = 1e6


def milliseconds(value_ns: int | None) -> str:
    """Milliseconds with three decimals, or a dash."""
    return "–" if value_ns is None else f"{value_ns / NS_PER_MS:.3f}"


def percent(ratio: float | None, digits: int = 1) -> str:
    """A share as a percentage, or a dash."""
    return "–" if ratio is None else f"{100 * ratio:.{digits}f} %"


def gibibytes(peaks: Iterable[int] | None) -> str:
    """The largest of several sizes in GiB, or a dash."""
    largest = max(peaks, default=None) if peaks is not None else None
    return "–" if largest is None else f"{largest / GIB:.2f}"
