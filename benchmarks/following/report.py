"""The table of the benchmark and its bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.following.policies import Outcome
from benchmarks.following.scenarios import Scenario

ABOVE_ORACLE = 0.03
ABOVE_STATIC = 0.005
MOST_SWAPS_ON_JITTER = 3
COLUMNS = (
    "scenario",
    "jitter",
    "seed",
    "1F1B s",
    "static plan s",
    "following s",
    "oracle s",
    "following / oracle",
    "following / static",
    "solves",
    "swaps",
    "rolled back",
    "broken limits",
)


@dataclass(frozen=True)
class Row:
    """One scenario; `one_f_one_b` is None where 1F1B does not fit."""

    scenario: Scenario
    one_f_one_b: Outcome | None
    static: Outcome
    following: Outcome
    oracle: Outcome

    @property
    def over_oracle(self) -> float:
        """By which share following takes longer than the oracle."""
        return self.following.total_ns / self.oracle.total_ns - 1

    @property
    def over_static(self) -> float:
        """By which share following takes longer than the static plan."""
        return self.following.total_ns / self.static.total_ns - 1


def missed(row: Row) -> Iterator[str]:
    """The bars that a scenario misses."""
    name = f"{row.scenario.name}, jitter {row.scenario.jitter:.0%}, seed {row.scenario.seed}"
    if row.over_oracle > ABOVE_ORACLE:
        yield f"{name}: {row.over_oracle:+.2%} over the oracle"
    if row.following.broken_limits:
        yield f"{name}: {row.following.broken_limits} plans that break a limit"
    if not row.scenario.drifts:
        if row.over_static > ABOVE_STATIC:
            yield f"{name}: {row.over_static:+.2%} over the static plan"
        if row.following.swaps > MOST_SWAPS_ON_JITTER:
            yield f"{name}: {row.following.swaps} swaps"


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown, with what they mean."""
    lines = [
        "# Plans that follow a run",
        "",
        "Simulated runs of 2,000 iterations; total times include downtime. `jitter` is the "
        "standard deviation of the logarithm of each operation's time; on top of it come slow "
        "operations (x3, one in a thousand) and iterations in which a stage is slow (x1.5, one in "
        "fifty).",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "| " + " | ".join(["---"] * len(COLUMNS)) + " |",
    ]
    return "\n".join([*lines, *(_line(row) for row in rows), ""])


def _line(row: Row) -> str:
    own = row.following
    simple = "does not fit" if row.one_f_one_b is None else _seconds(row.one_f_one_b)
    cells = [
        row.scenario.name,
        f"{row.scenario.jitter:.0%}",
        str(row.scenario.seed),
        simple,
        _seconds(row.static),
        _seconds(own),
        _seconds(row.oracle),
        f"{row.over_oracle:+.2%}",
        f"{row.over_static:+.2%}",
        *map(str, (own.solves, own.swaps, own.rollbacks, own.broken_limits)),
    ]
    return "| " + " | ".join(cells) + " |"


def _seconds(outcome: Outcome) -> str:
    return f"{outcome.total_ns / 1e9:,.1f}"
