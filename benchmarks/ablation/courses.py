"""How far each variant gets over time, from one run of it per problem."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from benchmarks.ablation.variants import VARIANTS, solve
from benchmarks.verified import wrong_in_schedule
from planner.errors import SolverCrash


@dataclass(frozen=True)
class Course:
    """One run.

    `values` are pairs of seconds and makespans (ns), each better than the one before; `bound_ns`
    is what the run itself proved, 0 if nothing, and `proven_s` when that met the best makespan,
    None if it did not. `exact` has the figures of the engine, if one ran. `wrong` is what the
    verifier has against the schedule, or why there is none; None if all is well.
    """

    problem: str
    variant: str
    limit_s: float
    seconds: float
    cpu_s: float
    values: Sequence[tuple[float, int]]
    bound_ns: int
    proven_s: float | None
    exact: Mapping[str, Any] | None
    wrong: str | None

    def value_at(self, seconds: float) -> int | None:
        """The best makespan that was there by then."""
        return min((value for at, value in self.values if at <= seconds), default=None)

    @property
    def best_ns(self) -> int | None:
        """The makespan of the answer."""
        return self.value_at(inf)


def courses(
    name: str, problem: Mapping[str, Any], limit_s: float, variants: Sequence[str] = tuple(VARIANTS)
) -> Iterator[Course]:
    """A run of each variant on one problem."""
    for variant in variants:
        began_s, began_cpu_s = time.monotonic(), _cpu_s()
        answer = _answer(problem, variant, limit_s)
        seconds, cpu_s = time.monotonic() - began_s, _cpu_s() - began_cpu_s
        yield Course(name, variant, limit_s, seconds, cpu_s, **_findings(answer))


def best_bound_ns(runs: Sequence[Course]) -> int:
    """The highest bound that any of these runs of one problem proved."""
    return max(run.bound_ns for run in runs)


def gap(value_ns: int | None, bound_ns: int) -> float | None:
    """(value - bound) / value; None without a value."""
    return None if value_ns is None else (value_ns - bound_ns) / value_ns


def contradictions(runs: Sequence[Course]) -> Iterator[str]:
    """What is wrong: schedules that break a rule, and bounds above a valid schedule."""
    for run in runs:
        if run.wrong is not None:
            yield f"{run.problem}, {run.variant}: {run.wrong}"
    valid = [run.best_ns for run in runs if run.wrong is None and run.best_ns is not None]
    for run in runs:
        if valid and run.bound_ns > min(valid):
            yield f"{run.problem}, {run.variant}: bound {run.bound_ns} ns above {min(valid)} ns"


def _cpu_s() -> float:
    """Seconds of processor time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _answer(problem: Mapping[str, Any], variant: str, limit_s: float) -> Mapping[str, Any]:
    try:
        return solve(problem, variant, limit_s)
    except SolverCrash as crash:
        return {"state": "failed", "detail": str(crash)}


def _findings(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a course that an answer has."""
    if answer["state"] != "succeeded":
        wrong = answer.get("detail", answer["state"])
        return {"values": [], "bound_ns": 0, "proven_s": None, "exact": None, "wrong": wrong}
    document = answer["document"]
    provenance = document["provenance"]
    return {
        "values": [(step["seconds"], step["objective_ns"]) for step in provenance["steps"]],
        "bound_ns": answer["lower_bound"],
        "proven_s": _proven_s(provenance["gap_over_time"]),
        "exact": provenance["exact"],
        "wrong": wrong_in_schedule(document["problem"], document["schedule"]),
    }


def _proven_s(points: Sequence[Mapping[str, Any]]) -> float | None:
    """When best value and bound met."""
    for point in points:
        best, bound = point["best_ns"], point["lower_bound_ns"]
        if best is not None and bound is not None and bound >= best:
            return float(point["seconds"])
    return None
