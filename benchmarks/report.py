"""The tables of the pipeline benchmark.

A row is `{"name", "best_known_ns", "engines": {engine: measurement}}`. A measurement has `state`,
`seconds`, `ok`, and, where there is a schedule, what `benchmarks.pipeline.measure` lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.common import milliseconds

Row = Mapping[str, Any]
Measurement = Mapping[str, Any]

MIB = 2**20
PROBLEM_COLUMNS = ("problem", "best known ms", "best fitting classic ms")
ENGINE_COLUMNS = (
    "makespan ms",
    "ratio",
    "flags",
    "bound ms",
    "gap",
    "best at s",
    "seconds",
    "device memory",
    "solver MiB",
    "found by",
    "accepted",
)


def header(engines: Sequence[str]) -> str:
    """The two lines above the rows; engines are named where there are several."""
    several = len(engines) > 1
    columns = [
        *PROBLEM_COLUMNS,
        *(f"{e}: {column}" if several else column for e in engines for column in ENGINE_COLUMNS),
    ]
    return f"{_line(columns)}\n{_line(['---'] * len(columns))}"


def as_line(row: Row) -> str:
    """One row in Markdown."""
    measurements = row["engines"].values()
    classic = [m["best_classic_ns"] for m in measurements if m.get("best_classic_ns")]
    cells = [
        row["name"],
        milliseconds(row["best_known_ns"]),
        milliseconds(min(classic, default=None)),
    ]
    for measurement in measurements:
        cells += _engine_cells(measurement, row["best_known_ns"])
    return _line(cells)


def flags(measurement: Measurement, best_known_ns: int | None) -> list[str]:
    """How an answer stands to the best value known, and whether it is proven optimal."""
    value = measurement.get("makespan_ns")
    if value is None:
        return []
    found = []
    if best_known_ns is not None and value <= best_known_ns:
        found.append("< best known" if value < best_known_ns else "≤ best known")
    if measurement["proven_optimal"]:
        found.append("proven")
    return found


def mean_gap(rows: Sequence[Row], engine: str) -> float | None:
    """An engine's mean gap to the best bound that any engine of the run proved.

    (makespan - bound) / makespan, over the problems of which it has a schedule; None if it has
    none.
    """
    gaps = []
    for row in rows:
        value = row["engines"].get(engine, {}).get("makespan_ns")
        if value is not None:
            bounds = [m.get("lower_bound_ns") or 0 for m in row["engines"].values()]
            gaps.append((value - max(bounds)) / value)
    return fmean(gaps) if gaps else None


def summary(rows: Sequence[Row], engines: Sequence[str]) -> str:
    """What there is to say about each engine over all problems; the mean gaps come last."""
    counts, gaps = [], []
    for engine in engines:
        solved = [
            flags(row["engines"][engine], row["best_known_ns"])
            for row in rows
            if row["engines"].get(engine, {}).get("makespan_ns") is not None
        ]
        listed = [
            f"{words} {sum(bool(set(own) & wanted) for own in solved)}"
            for words, wanted in (
                ("at most the best known", {"≤ best known", "< best known"}),
                ("below it", {"< best known"}),
                ("proven", {"proven"}),
            )
        ]
        counts.append(f"{engine}: schedules {len(solved)}, {', '.join(listed)}.")
        gap = mean_gap(rows, engine)
        gaps.append(f"{engine}: mean gap to the best bound {_share(gap, digits=3)}.")
    return "\n\n".join([*counts, *gaps])


def _engine_cells(measurement: Measurement, best_known_ns: int | None) -> list[str]:
    accepted = "yes" if measurement["ok"] else f"NO: {measurement.get('error')}"
    value = measurement.get("makespan_ns")
    seconds = f"{measurement['seconds']:.1f}"
    if value is None:
        return [measurement["state"], *["–"] * 5, seconds, "–", "–", "–", accepted]
    best_at = measurement["best_at_s"]
    bound = milliseconds(measurement["lower_bound_ns"])
    if measurement["bound_name"]:
        bound += f" ({measurement['bound_name']})"
    return [
        milliseconds(value),
        f"{value / best_known_ns:.4f}" if best_known_ns else "–",
        ", ".join(flags(measurement, best_known_ns)) or "–",
        bound,
        _share(measurement["gap"], digits=2),
        "–" if best_at is None else f"{best_at:.1f}",
        seconds,
        _share(measurement["device_memory_share"], digits=1),
        _mebibytes(measurement["solver_peak_bytes"]),
        measurement["found_by"] or "–",
        accepted,
    ]


def _share(value: float | None, *, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}%}"


def _mebibytes(value: int | None) -> str:
    return "–" if value is None else f"{value / MIB:.0f}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
