"""The finalists' schedules, by the pipeline solver."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from planner.errors import SolverCrash
from planner.progress import Reporter, StopCheck
from planner.training.spec import TrainingSpec
from planner.training.verify import Verified

LEAST_S = 1.0
"""Of time that it is worth to begin a solver with."""
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
    bound_ns = verified.plan.step.bound_ns
    if to_beat_ns is not None and bound_ns >= to_beat_ns:
        why = f"No schedule of it is shorter than {bound_ns} ns, so none beats the best one."
        return Solved(verified, None, why)
    if should_stop() or time_limit_s < LEAST_S:
        why = "The solve was asked to stop." if should_stop() else "The time was up."
        return Solved(verified, None, why)
    # Only solver processes load the engines.
    from planner.pipeline.request import resolve_request
    from planner.pipeline.solve import run

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
    began = time.monotonic()
    try:
        answer = run(
            resolve_request(body).spec, _Part(label, reporter), should_stop, None, time_limit_s
        )
    except SolverCrash as crash:
        reporter.log(f"{label}: {crash}")
        return Solved(verified, None, f"The engine died: {crash}")
    if answer["state"] != "succeeded":
        detail = answer.get("detail", "The schedule solver found that nothing fits.")
        return Solved(verified, None, str(detail))
    reporter.log(f"{label}: {answer['objective']} ns after {time.monotonic() - began:.1f} s")
    return Solved(verified, answer)


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
