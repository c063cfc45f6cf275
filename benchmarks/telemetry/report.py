"""The record of the telemetry benchmark, and the bars it is held to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.recording import Figure, Record, Table
from benchmarks.telemetry.bench import STAGES

POSTS, MOST_S, P99_MS = 100_000, 300.0, 50.0
"""The bars."""
Row = Mapping[str, Any]
COLUMNS = (
    "database",
    "runs",
    "posts",
    "due per s",
    "s",
    "taken per s",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "max ms",
    "CPU ms",
    "at most per s",
    "bars",
)
NOTE = f"""\
One API process and the process that posts share the cores; there is no worker, which would look
after the runs. Each run of {STAGES} stages posts one iteration at a time. Times are from when a
post was due, so that one that waits for the post before it counts its wait. *CPU* is what the API
process takes of a core per post. *At most per s* is with every run posting again as soon as it was
answered. The bars: {POSTS:,} posts within {MOST_S:g} s, p99 ≤ {P99_MS:g} ms, none refused."""


def record_of(rows: Sequence[Row], environment: Mapping[str, str]) -> Record:
    """The rows, one per database, as they are kept."""
    return Record(
        title="How fast the API takes telemetry",
        command="python -m benchmarks.telemetry",
        note=NOTE,
        tables=[Table("", COLUMNS, [_cells(row) for row in rows])],
        figures=[figure for row in rows for figure in _figures(row)],
        environment=environment,
    )


def missed(row: Mapping[str, Any]) -> list[str]:
    """The bars that a row misses; the time is that of as many posts as the bar is about."""
    steady, found = row["steady"], []
    if POSTS / steady["per_s"] > MOST_S:
        found.append(f"{POSTS} posts in {MOST_S:g} s")
    if steady["p99_ms"] > P99_MS:
        found.append(f"p99 ≤ {P99_MS:g} ms")
    if set(steady["statuses"]) != {"200"} or set(row["burst"]["statuses"]) != {"200"}:
        found.append("every post taken")
    return found


def _cells(row: Row) -> list[str]:
    steady, burst = row["steady"], row["burst"]
    return [
        row["database"],
        str(row["runs"]),
        f"{steady['count']:,}",
        f"{row['due_per_s']:g}",
        f"{steady['seconds']:.0f}",
        f"{steady['per_s']:.1f}",
        *(f"{steady[name]:.1f}" for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")),
        f"{row['cpu_ms']:.2f}",
        f"{burst['per_s']:.0f}",
        "; ".join(f"{bar}: MISSED" for bar in missed(row)) or "met",
    ]


def _figures(row: Row) -> Iterator[Figure]:
    """The long waits are of the machine as much as of the service, so they may vary more."""
    database, steady = row["database"], row["steady"]
    yield Figure(f"p50, {database}", steady["p50_ms"], "ms", "less", noise=0.25, least=1.0)
    yield Figure(f"p99, {database}", steady["p99_ms"], "ms", "less", noise=0.5, least=10.0)
    yield Figure(f"CPU per post, {database}", row["cpu_ms"], "ms", "less", noise=0.25)
    per_s = row["burst"]["per_s"]
    yield Figure(f"posts taken at most, {database}", per_s, "per s", "more", noise=0.25)
