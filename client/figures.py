"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class SizeUnit:
    """A unit of sizes and the decimals that make sense in it."""

    name: str
    bytes: int
    digits: int

    def figure(self, size_bytes: float | None) -> str:
        """The number alone, or a dash."""
        return "–" if size_bytes is None else f"{size_bytes / self.bytes:.{self.digits}f}"


SIZE_UNITS = (
    SizeUnit("GiB", GIB, 3),
    SizeUnit("MiB", 2**20, 2),
    SizeUnit("KiB", 2**10, 2),
    SizeUnit("bytes", 1, 0),
)


def size_unit(sizes_bytes: Iterable[float | None], at_least: int = 10) -> SizeUnit:
    """The largest unit of which the largest of the sizes has so many; else bytes."""
    largest = max((abs(size) for size in sizes_bytes if size is not None), default=0)
    return next((unit for unit in SIZE_UNITS if largest >= at_least * unit.bytes), SIZE_UNITS[-1])


def size(size_bytes: float | None) -> str:
    """A size in the unit that suits it, or a dash."""
    if size_bytes is None:
        return "–"
    unit = size_unit([size_bytes], at_least=1)
    return f"{unit.figure(size_bytes)} {unit.name}"


def best_figure(job: Mapping[str, Any]) -> str | None:
    """The best objective of a job so far, with its unit; None if it has none yet."""
    makespan_ns, step_time_ns = job["best_makespan_ns"], job["best_step_time_ns"]
    value_ns = step_time_ns if makespan_ns is None else makespan_ns
    return _objective(value_ns, job["best_objective_bytes"])


def bound_figure(job: Mapping[str, Any]) -> str | None:
    """What is proven that the objective of a job cannot beat, likewise."""
    return _objective(job["lower_bound_ns"], job["lower_bound_bytes"])


def _objective(value_ns: int | None, value_bytes: int | None) -> str | None:
    if value_bytes is not None:
        return size(value_bytes)
    return None if value_ns is None else f"{milliseconds(value_ns)} ms"
