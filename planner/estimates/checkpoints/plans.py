"""How often to write which checkpoint: the defaults beside the optima, each with what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, floor, inf
from typing import Any

from planner.estimates.checkpoints.intervals import best_s, daly_s, young_s
from planner.estimates.checkpoints.two_levels import Levels, best_levels, cycle_s, useful_share

DEFAULT_FAST_S, DEFAULT_FULL_S = 300.0, 3_600.0
DAY_HOURS = 24

BASES_OF_ONE = {
    "default": "A full checkpoint every hour.",
    "young": "sqrt(2 C M) (Young 1974).",
    "daly": "Higher order (Daly 2006).",
    "best": "The maximum of the exact useful share (Daly's complete model).",
}
BASES_OF_TWO = {
    "default": "A fast checkpoint every 5 minutes, a full one every hour.",
    "young": "Young's interval of each level by itself, with the failures that it is for.",
    "daly": "Daly's interval of each level by itself, with the failures that it is for.",
    "best": "The maximum of the exact useful share of both together (Vaidya 1995).",
}


@dataclass(frozen=True, slots=True)
class Cadence:
    """A checkpoint every `iterations`, of which every `segments`-th is a full one."""

    iterations: int
    segments: int


@dataclass(frozen=True, slots=True)
class Planner:
    """Works out plans of one or two levels.

    `iteration_s` is what an iteration takes; `fast_lag_s` and `full_lag_s` how long checkpoints are
    written while training goes on, before which no other of their kind may begin. With one level
    only full checkpoints exist.
    """

    levels: Levels
    iteration_s: float
    fast_lag_s: float
    full_lag_s: float
    gpus: int

    @property
    def has_two_levels(self) -> bool:
        """Whether fast checkpoints exist."""
        return self.levels.fast_share > 0

    def plans(self) -> list[dict[str, Any]]:
        """The default, Young's, Daly's and the best, each rounded to whole iterations."""
        bases = BASES_OF_TWO if self.has_two_levels else BASES_OF_ONE
        return [
            self._document(name, cadence, bases[name]) for name, cadence in self._cadences().items()
        ]

    def _cadences(self) -> dict[str, Cadence]:
        """The best is at least as good as the others, whatever rounding does to each."""
        found = dict(self._by_rules())
        best = max(reversed([*found.values(), *self._best()]), key=self._useful_share)
        return found | {"best": best}

    def _by_rules(self) -> Iterator[tuple[str, Cadence]]:
        levels = self.levels
        if not self.has_two_levels:
            cost, mtbf = levels.full_cost_s, levels.mtbf_s
            yield "default", self._rounded(DEFAULT_FULL_S, DEFAULT_FULL_S)
            for name, interval_s in (("young", young_s(cost, mtbf)), ("daly", daly_s(cost, mtbf))):
                yield name, self._rounded(interval_s, interval_s)
            return
        fast, full = levels.mtbf_s / levels.fast_share, levels.mtbf_s / (1 - levels.fast_share)
        yield "default", self._rounded(DEFAULT_FAST_S, DEFAULT_FULL_S)
        for name, rule in (("young", young_s), ("daly", daly_s)):
            intervals = rule(levels.fast_cost_s, fast), rule(levels.full_cost_s, full)
            yield name, self._rounded(*intervals)

    def _best(self) -> list[Cadence]:
        """The two whole numbers of iterations around the optimum."""
        levels = self.levels
        work_s, segments = best_s(levels.full_cost_s, levels.mtbf_s), 1
        if self.has_two_levels:
            work_s, segments = best_levels(levels, self._least_iterations * self.iteration_s)
        exact = work_s / self.iteration_s
        around = {max(self._least_iterations, n) for n in (floor(exact), ceil(exact))}
        return [self._cadence(n, segments) for n in sorted(around)]

    def _useful_share(self, cadence: Cadence) -> float:
        return useful_share(self.levels, cadence.iterations * self.iteration_s, cadence.segments)

    def _rounded(self, fast_s: float, full_s: float) -> Cadence:
        iterations = max(self._least_iterations, round(fast_s / self.iteration_s))
        return self._cadence(iterations, round(full_s / (iterations * self.iteration_s)))

    def _cadence(self, iterations: int, segments: int) -> Cadence:
        """As many segments, or as many as writing a full checkpoint takes."""
        written = 1
        if self.has_two_levels:
            written = ceil(self.full_lag_s / (iterations * self.iteration_s))
        return Cadence(iterations, max(1, segments, written))

    @property
    def _least_iterations(self) -> int:
        lag_s = self.fast_lag_s if self.has_two_levels else self.full_lag_s
        return max(1, ceil(lag_s / self.iteration_s))

    def _document(self, name: str, cadence: Cadence, basis: str) -> dict[str, Any]:
        levels, work_s = self.levels, cadence.iterations * self.iteration_s
        undisturbed_s = self._undisturbed_s(cadence)
        taken_s = cycle_s(levels, work_s, cadence.segments)
        useful = self._useful_share(cadence)
        full = cadence.iterations * cadence.segments
        document: dict[str, Any] = {"name": name}
        if self.has_two_levels:
            document |= {
                "fast_every_iterations": cadence.iterations,
                "fast_every_ns": round(work_s * 1e9),
            }
        return document | {
            "full_every_iterations": full,
            "full_every_ns": round(full * self.iteration_s * 1e9),
            "overhead_share": 1 - cadence.segments * work_s / undisturbed_s,
            "loss_per_failure_ns": None
            if taken_s == inf
            else round((taken_s - undisturbed_s) * levels.mtbf_s / taken_s * 1e9),
            "useful_share": useful,
            "lost_gpu_hours_per_day": (1 - useful) * DAY_HOURS * self.gpus,
            "basis": basis,
        }

    def _undisturbed_s(self, cadence: Cadence) -> float:
        """A cycle without any failure."""
        fast = (cadence.segments - 1) * self.levels.fast_cost_s
        work_s = cadence.segments * cadence.iterations * self.iteration_s
        return work_s + fast + self.levels.full_cost_s


def one_level(levels: Levels) -> Levels:
    """The same with full checkpoints alone."""
    return replace(levels, fast_share=0.0, fast_cost_s=levels.full_cost_s)
