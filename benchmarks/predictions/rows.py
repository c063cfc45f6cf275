"""A reference value beside ours, and tables of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.recording import Figure, Table

FAR_SHARE, FAR_POINTS = 0.10, 5.0
"""Beyond these a row says why, as far as is known."""


@dataclass(frozen=True)
class Row:
    """One reference value and ours, in the same unit; in `points` shares are compared, whose error
    is a difference. `why` is one sentence about an error that is large."""

    what: str
    unit: str
    reference: float
    ours: float
    why: str = ""

    @property
    def is_points(self) -> bool:
        """Whether the error is a difference in percentage points."""
        return self.unit == "%"

    @property
    def error(self) -> float:
        """Relative, or in points."""
        if self.is_points:
            return self.ours - self.reference
        return self.ours / self.reference - 1

    @property
    def is_far(self) -> bool:
        """Whether the error is large."""
        return abs(self.error) > (FAR_POINTS if self.is_points else FAR_SHARE)

    @property
    def error_text(self) -> str:
        """As it is printed."""
        return f"{self.error:+.1f} points" if self.is_points else f"{self.error:+.2%}"


@dataclass(frozen=True)
class Group:
    """Rows from one source. `fitted` says whether the rates of the cost model were fitted to it,
    all groups of which this is true together."""

    title: str
    source: str
    rows: Sequence[Row]
    fitted: bool = False

    def table(self) -> Table:
        """Every row, and why those are far off that are: once where it is the same for all."""
        reasons = sorted({row.why for row in self.rows if row.why})
        note, columns = f"{self.source}.", ("what", "unit", "reference", "ours", "error")
        if len(reasons) < 2:
            note = " ".join([note, *(f"Where the error is large: {why}." for why in reasons)])
            return Table(self.title, columns, [_cells(row) for row in self.rows], note)
        told = [[*_cells(row), row.why] for row in self.rows]
        return Table(self.title, (*columns, "why"), told, note)

    def parts(self) -> Iterator[Part]:
        """Its rows by the kind of their error."""
        for is_points, suffix in ((False, ""), (True, ", shares")):
            rows = [row for row in self.rows if row.is_points == is_points]
            if rows:
                yield Part(f"{self.title}{suffix}", rows, self.fitted)


@dataclass(frozen=True)
class Part:
    """Rows whose errors can be compared, and their summary."""

    title: str
    rows: Sequence[Row]
    fitted: bool

    @property
    def worst(self) -> Row:
        """The row with the largest error."""
        return max(self.rows, key=lambda row: abs(row.error))

    @property
    def median_error(self) -> float:
        """Of the absolute errors, in % or points."""
        scale = 1 if self.rows[0].is_points else 100
        return scale * median_error([row.error for row in self.rows])

    @property
    def unit(self) -> str:
        """Of `median_error`."""
        return "points" if self.rows[0].is_points else "%"

    def figure(self) -> Figure:
        """What a later run is compared with."""
        name = f"{self.title}: median absolute error"
        return Figure(name, round(self.median_error, 4), self.unit, "less", 0.005, least=0.05)

    def cells(self) -> list[str]:
        """A row of the summary."""
        return [
            self.title,
            str(len(self.rows)),
            f"{self.median_error:.2f} {self.unit}",
            f"{self.worst.error_text} ({self.worst.what})",
            str(sum(row.is_far for row in self.rows)),
            "yes" if self.fitted else "no",
        ]


def median_error(errors: Iterable[float]) -> float:
    """The median of their sizes."""
    return statistics.median(map(abs, errors))


def summary(groups: Iterable[Group]) -> Table:
    """All groups, a line each."""
    return Table(
        "Summary",
        (
            "group",
            "values",
            "median absolute error",
            "worst",
            f"beyond {FAR_SHARE:.0%} or {FAR_POINTS:g} points",
            "rates fitted to it",
        ),
        [part.cells() for group in groups for part in group.parts()],
    )


def with_why(rows: Iterable[Row], why: str) -> Iterator[Row]:
    """The same; those that are far off say why."""
    for row in rows:
        yield replace(row, why=why) if row.is_far else row


def _cells(row: Row) -> list[str]:
    return [row.what, row.unit, _figure(row.reference), _figure(row.ours), row.error_text]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 10_000 else f"{value:.4g}"
