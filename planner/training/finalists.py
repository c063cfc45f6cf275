"""The finalists' schedules, by the pipeline solver."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from planner.cost.spec import checked_candidates, read_cost_model
from planner.errors import SolverCrash
from planner.pipeline.names import StartKind
from planner.progress import Reporter, StopCheck
from planner.training.carry_out import carry_out
from planner.training.spec import TrainingSpec
from planner.training.verify import Verified

LEAST_S = 1.0
"""Of time that it is worth to begin a solver with."""
STARTING_SHARE = 0.5
"""Of a finalist's time, at most, for the schedule that its solver begins with."""
LONGEST_PHASE = 64


@dataclass(frozen=True)
class Solved:
    """What became of a finalist: the solver's answer, or why there is none."""

    verified: Verified
    answer: dict[str, Any] | None
    why_not: str | None = None

    @property
    def makespan_ns(self) -> int | None:
        """Of the schedule found."""
        if self.answer is None or self.answer["state"] != "succeeded":
            return None
        makespan_ns: int = self.answer["objective"]
        return makespan_ns

    @property
    def lower_bound_ns(self) -> int | None:
        """What the solver proved that no schedule is shorter than."""
        if self.answer is None or self.answer["state"] != "succeeded":
            return None
        bound_ns: int | None = self.answer["document"]["certificate"]["lower_bound_ns"]
        return bound_ns


def solve_finalist(
    spec: TrainingSpec,
    verified: Verified,
    to_beat_ns: int | None,
    label: str,
    reporter: Reporter,
    should_stop: StopCheck,
    time_limit_s: float,
) -> Solved:
    """The schedule of one finalist, unless none of it can be shorter than `to_beat_ns`."""
    bound_ns = verified.plan.bound_ns
    if to_beat_ns is not None and bound_ns >= to_beat_ns:
        why = f"No schedule of it is shorter than {bound_ns} ns, so none beats the best one."
        return Solved(verified, None, why)
    if should_stop() or time_limit_s < LEAST_S:
        why = "The solve was asked to stop." if should_stop() else "The time was up."
        return Solved(verified, None, why)
    # Only solver processes load the engines.
    from planner.pipeline.request import resolve_request
    from planner.pipeline.solve import run

    began = time.monotonic()
    latest = began + STARTING_SHARE * time_limit_s
    start = _start(spec, verified, lambda: should_stop() or time.monotonic() >= latest)
    time_limit_s = max(LEAST_S, began + time_limit_s - time.monotonic())
    options = spec.options
    body = {
        "model": spec.request["model"],
        "cluster": spec.cluster_fields,
        "training": verified.document,
        "solver": {
            "engine": options.engine,
            "time_limit_s": time_limit_s,
            "mip_gap": options.mip_gap,
            "threads": options.threads,
            "seed": options.seed,
        },
    }
    try:
        answer = run(
            resolve_request(body).spec, _Part(label, reporter), should_stop, start, time_limit_s
        )
    except SolverCrash as crash:
        reporter.log(f"{label}: {crash}")
        return Solved(verified, None, f"The engine died: {crash}")
    if answer["state"] != "succeeded":
        detail = answer.get("detail", "The schedule solver found that nothing fits.")
        return Solved(verified, None, str(detail))
    reporter.log(f"{label}: {answer['objective']} ns after {time.monotonic() - began:.1f} s")
    return Solved(verified, answer)


def _start(spec: TrainingSpec, verified: Verified, should_stop: StopCheck) -> dict[str, Any] | None:
    """The schedule that the plan was verified with, of all micro-batches, for the solver to begin
    with: of long steps it would not look for that one again. None if there is no time for it."""
    costs = read_cost_model(spec.request["model"], spec.cluster_fields, verified.document)
    candidate = checked_candidates(costs)[0]
    carried = carry_out(candidate.problem, costs.training.interleaving or 1, should_stop)
    if carried is None or carried.schedule is None or carried.violations:
        return None
    return {
        "placement": candidate.placement,
        "schedule": carried.schedule.to_document(None),
        "found_by": carried.name,
        "origin": {"kind": StartKind.VERIFICATION},
    }


class _Part:
    """Passes on a finalist's progress under its label. Bounds and incumbents are of one
    configuration only, and stay here."""

    def __init__(self, label: str, reporter: Reporter) -> None:
        self._label = label
        self._reporter = reporter

    def log(self, line: str) -> None:
        self._reporter.log(f"{self._label}: {line}")

    def phase(self, name: str) -> None:
        self._reporter.phase(f"{self._label}: {name}"[:LONGEST_PHASE])

    def bound(self, name: str, value: float) -> None:
        """Of this configuration alone."""

    def incumbent(self, document: dict[str, Any], objective: float, found_by: str) -> None:
        """Reported as part of a training plan once it is complete."""
