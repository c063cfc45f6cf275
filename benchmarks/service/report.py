"""The tables of the service benchmark, and the bars it is held to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.recording import Figure, Record, Table

Row = Mapping[str, Any]

COLUMNS = (
    "what",
    "database",
    "server",
    "at once",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "max ms",
    "per s",
    "CPU ms",
    "× bare p50",
    "× bare per s",
    "bars",
)
NOTE = """\
One API process of each kind; the load comes from a process of its own on the same cores. *bare
read* is a FastAPI route without anything around it that reads a job and its solve with the ORM.
*status poll* asks for a job that a worker runs; all ask for the same one, and the service reads it
once for those that wait at the same time. *cache hit* posts a model and a cluster whose plan is
stored, and gets the plan. *submit to solver start* ends when the solver process that the worker's
pre-imported server has forked holds the spec. *event to client* begins when a step was written and
ends when it was read from the stream. *CPU* is what the API process takes of a core per answer. The
last two columns of figures are relative to the bare read on the same database with as many at
once."""


@dataclass(frozen=True)
class Bar:
    """What a figure of a row has to be: at most, or with `at_least` at least."""

    what: str
    at_once: int
    figure: str
    limit: float
    at_least: bool = False
    databases: tuple[str, ...] = ("SQLite", "PostgreSQL")

    def is_of(self, row: Row) -> bool:
        """Whether this row has to meet it."""
        named = (row["what"], row["at_once"]) == (self.what, self.at_once)
        return named and row["database"] in self.databases

    def is_met(self, row: Row) -> bool:
        """Whether it does."""
        value = row[self.figure]
        return bool(value >= self.limit if self.at_least else value <= self.limit)

    def __str__(self) -> str:
        name, _, unit = self.figure.rpartition("_")
        words = {"ms": f"{name} {'≥' if self.at_least else '≤'} {self.limit:g} ms"}
        return words.get(unit, f"≥ {self.limit:g} per s")


BARS = (
    Bar("cache hit", 1, "p50_ms", 8),
    Bar("status poll", 1, "p50_ms", 3),
    Bar("status poll", 32, "per_s", 600, at_least=True, databases=("SQLite",)),
    Bar("status poll", 32, "p99_ms", 150, databases=("SQLite",)),
    Bar("submit to solver start", 1, "p50_ms", 60),
)


def with_ratios(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, each with what it is of the bare read of the same run, and the bars it misses."""
    bare = {(r["database"], r["at_once"]): r for r in rows if r["what"] == "bare read"}
    found = []
    for row in rows:
        beside = bare[row["database"], row["at_once"]]
        ratios = {"p50_ratio": round(row["p50_ms"] / beside["p50_ms"], 2)}
        if "per_s" in row:
            ratios["per_s_ratio"] = round(row["per_s"] / beside["per_s"], 2)
        missed = [str(bar) for bar in BARS if bar.is_of(row) and not bar.is_met(row)]
        found.append({**row, **ratios, "missed": missed})
    return found


def record_of(rows: Sequence[Row], command: str, environment: Mapping[str, str]) -> Record:
    """The rows, all databases together, as they are kept."""
    return Record(
        title="How fast the service answers",
        command=command,
        note=NOTE,
        tables=[Table("", COLUMNS, [list(_cells(row)) for row in rows])],
        figures=[figure for row in rows for figure in _figures(row)],
        environment=environment,
    )


def _cells(row: Row) -> Iterator[str]:
    yield from (row["what"], row["database"], row["server"], str(row["at_once"]))
    yield from (f"{row[name]:.1f}" for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms"))
    yield f"{row['per_s']:.0f}" if "per_s" in row else "–"
    yield f"{row['cpu_ms']:.2f}" if "cpu_ms" in row else "–"
    yield f"{row['p50_ratio']:.2f}"
    yield f"{row['per_s_ratio']:.2f}" if "per_s_ratio" in row else "–"
    held = [bar for bar in BARS if bar.is_of(row)]
    yield "; ".join(f"{bar}: {'met' if bar.is_met(row) else 'MISSED'}" for bar in held) or "–"


def _figures(row: Row) -> Iterator[Figure]:
    """The middle of one at a time and how many are answered of many at once; the longest waits say
    more of the machine than of the service."""
    who = f"{row['what']}, {row['database']}, {row['server']}"
    if row["what"] == "bare read":
        return
    if row["at_once"] == 1:
        yield Figure(f"{who}: p50", row["p50_ms"], "ms", "less", noise=0.25, least=0.3)
    else:
        name = f"{who}, {row['at_once']} at once"
        yield Figure(name, row["per_s"], "per s", "more", noise=0.25)
