"""The record of the pipeline benchmark.

A row is `{"name", "best_known_ns", "engines": {engine: measurement}}`. A measurement has `state`,
`seconds`, `ok`, and, where there is a schedule, what `benchmarks.pipeline.measure` lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.common import milliseconds
from benchmarks.recording import Figure, Record, Table

Row = Mapping[str, Any]
Measurement = Mapping[str, Any]

MIB = 2**20
NOTE = """\
All problems of `benchmarks/problems`, each solved afresh with a limit of {limit:g} s from the
solver's start. *Best known* is the makespan in `benchmarks/problems/best-known.json`, noted when
the problem was drawn up; *ratio* is to that. *Classic* is the best of GPipe, 1F1B, zero-bubble,
PipeOffload and the other schedules of the comparison that fits into memory; – where none does.
Where it is below *best known*, a classic schedule beats that, too. *Device memory* is the largest
share that a device uses of its limit, *solver MiB* the most that the solver and the engines under
it held when looked at twice a second (– is a solve that was over before the first look), *seconds*
the wall time with the process's start. *Accepted*: verified once more."""
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
COUNTED = {
    "at most the best known": {"≤ best known", "< best known"},
    "below it": {"< best known"},
    "proven": {"proven"},
}
"""What is counted over all problems, and the flags that count."""


def record_of(
    rows: Sequence[Row], engines: Sequence[str], limit_s: float, environment: Mapping[str, str]
) -> Record:
    """Everything that is kept."""
    return Record(
        title="All benchmark problems against the best values known",
        command="python -m benchmarks.pipeline",
        note=NOTE.format(limit=limit_s),
        tables=[
            Table("", columns(engines), [cells(row) for row in rows]),
            summary(rows, engines),
        ],
        figures=[figure for engine in engines for figure in _figures(rows, engine)],
        environment=environment,
    )


def columns(engines: Sequence[str]) -> list[str]:
    """The columns; engines are named where there are several."""
    several = len(engines) > 1
    return [
        *PROBLEM_COLUMNS,
        *(f"{e}: {column}" if several else column for e in engines for column in ENGINE_COLUMNS),
    ]


def cells(row: Row) -> list[str]:
    """One row of the table."""
    measurements = row["engines"].values()
    classic = [m["best_classic_ns"] for m in measurements if m.get("best_classic_ns")]
    found = [
        row["name"],
        milliseconds(row["best_known_ns"]),
        milliseconds(min(classic, default=None)),
    ]
    for measurement in measurements:
        found += _engine_cells(measurement, row["best_known_ns"])
    return found


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
    for row in _solved(rows, engine):
        value = row["engines"][engine]["makespan_ns"]
        bounds = [m.get("lower_bound_ns") or 0 for m in row["engines"].values()]
        gaps.append((value - max(bounds)) / value)
    return fmean(gaps) if gaps else None


def summary(rows: Sequence[Row], engines: Sequence[str]) -> Table:
    """What there is to say about each engine over all problems."""
    heads = ("engine", "problems", "schedules", *COUNTED, "mean gap to the best bound")
    lines = [
        [
            engine,
            f"{len(rows)}",
            f"{len(_solved(rows, engine))}",
            *(f"{_count(rows, engine, wanted)}" for wanted in COUNTED.values()),
            _share(mean_gap(rows, engine), digits=3),
        ]
        for engine in engines
    ]
    return Table("Over all problems", heads, lines)


def _figures(rows: Sequence[Row], engine: str) -> Iterator[Figure]:
    """What is found within a time limit depends on how busy the machine is."""
    of = f", {engine}"
    for words, wanted in COUNTED.items():
        count = _count(rows, engine, wanted)
        yield Figure(f"problems {words}{of}", count, "", "more", noise=0.0, least=3)
    gap = mean_gap(rows, engine)
    if gap is not None:
        yield Figure(f"mean gap{of}", 100 * gap, "%", "less", noise=0.2, least=0.1)
    ratios = [
        row["engines"][engine]["makespan_ns"] / row["best_known_ns"]
        for row in _solved(rows, engine)
        if row["best_known_ns"]
    ]
    if ratios:
        yield Figure(f"mean ratio to the best known{of}", fmean(ratios), "", "less", noise=0.01)


def _solved(rows: Sequence[Row], engine: str) -> list[Row]:
    """The rows of which an engine has a schedule."""
    return [row for row in rows if row["engines"].get(engine, {}).get("makespan_ns") is not None]


def _count(rows: Sequence[Row], engine: str, wanted: set[str]) -> int:
    return sum(
        bool(wanted & set(flags(row["engines"][engine], row["best_known_ns"])))
        for row in _solved(rows, engine)
    )


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
