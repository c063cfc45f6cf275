"""The record of the benchmark and its bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.following.policies import Outcome
from benchmarks.following.scenarios import Scenario
from benchmarks.recording import Figure, Record, Table
from planner.following.settings import FollowSettings

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
    "bars",
)
NOTE = f"""\
Simulated training runs of 2,000 iterations: with 1F1B throughout; with the best plan known at the
start throughout (*static*); with plans that follow what the ranks report (*following*); and with
an *oracle* that knows the true times at each moment and plans again at once. Total times in s,
with downtime. *Jitter* is the standard deviation of the logarithm of each operation's time; on top
of it come slow operations (x 3, one in a thousand) and iterations in which a stage is slow (x 1.5,
one in fifty). The bars: at most {ABOVE_ORACLE:.0%} above the oracle and no plan that breaks a
memory limit; where nothing but jitter happens, at most {ABOVE_STATIC:.1%} above the static plan
and at most {MOST_SWAPS_ON_JITTER} swaps. A new plan has to save a share of `min_gain`
({FollowSettings().min_gain:.0%}) of the iteration. Of *wrong guess* even the oracle saves less, so
that nothing is swapped; 1F1B happens to be a little faster there than the plan that was made for
the wrong times."""


@dataclass(frozen=True)
class Row:
    """One scenario; `one_f_one_b` is None where 1F1B does not fit."""

    scenario: Scenario
    one_f_one_b: Outcome | None
    static: Outcome
    following: Outcome
    oracle: Outcome

    @property
    def name(self) -> str:
        """Of the scenario, with what tells it from others of its kind."""
        scenario = self.scenario
        return f"{scenario.name}, jitter {scenario.jitter:.0%}, seed {scenario.seed}"

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
    if row.over_oracle > ABOVE_ORACLE:
        yield "oracle"
    if row.following.broken_limits:
        yield "memory limits"
    if not row.scenario.drifts:
        if row.over_static > ABOVE_STATIC:
            yield "static plan"
        if row.following.swaps > MOST_SWAPS_ON_JITTER:
            yield "swaps"


def record_of(rows: Sequence[Row], environment: Mapping[str, str]) -> Record:
    """The rows as they are kept."""
    return Record(
        title="Plans that follow a run",
        command="python -m benchmarks.following",
        note=NOTE,
        tables=[Table("", COLUMNS, [_cells(row) for row in rows])],
        figures=[figure for row in rows for figure in _figures(row)],
        environment=environment,
    )


def _cells(row: Row) -> list[str]:
    own = row.following
    simple = "does not fit" if row.one_f_one_b is None else _seconds(row.one_f_one_b)
    return [
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
        "; ".join(f"{bar}: MISSED" for bar in missed(row)) or "met",
    ]


def _figures(row: Row) -> Iterator[Figure]:
    """Nothing here depends on the clock, but another version of the planner finds other plans."""
    total_s = row.following.total_ns / 1e9
    yield Figure(f"following, {row.name}", total_s, "s", "less", noise=0.005)
    swaps = row.following.swaps
    yield Figure(f"swaps, {row.name}", swaps, "", "less", noise=0.0, least=1.0)


def _seconds(outcome: Outcome) -> str:
    return f"{outcome.total_ns / 1e9:,.1f}"
