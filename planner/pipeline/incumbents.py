"""The best schedule so far: nothing enters without passing verification."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from planner.pipeline.objective import objective_ns
from planner.pipeline.progress import Reporter
from planner.pipeline.schedule import Schedule
from planner.pipeline.spec import Candidate
from planner.pipeline.verify import verify


@dataclass(frozen=True)
class Incumbent:
    """A verified schedule of one candidate, what found it and after how many seconds."""

    candidate: Candidate
    schedule: Schedule
    found_by: str
    seconds: float

    @property
    def objective_ns(self) -> int:
        return objective_ns(self.candidate.problem, self.schedule)


class Incumbents:
    """Keeps the best verified schedule of every candidate and the history of improvements."""

    def __init__(self, reporter: Reporter, started: float) -> None:
        self._reporter = reporter
        self._started = started
        self.by_placement: dict[str, Incumbent] = {}
        self.best: Incumbent | None = None
        self.steps: list[dict[str, Any]] = []

    def offer(self, candidate: Candidate, schedule: Schedule, found_by: str) -> None:
        """Verify a schedule and keep it if it is the best of its candidate.

        A schedule that breaks a rule is logged and dropped, whoever made it.
        """
        known = self.by_placement.get(candidate.placement)
        value = objective_ns(candidate.problem, schedule)
        if known is not None and known.objective_ns <= value:
            return
        violations = verify(candidate.problem, schedule)
        if violations:
            self._reporter.log(f"dropped a schedule by {found_by}: {violations[0]}")
            return
        found = Incumbent(candidate, schedule, found_by, time.monotonic() - self._started)
        self.by_placement[candidate.placement] = found
        if self.best is None or value < self.best.objective_ns:
            self.best = found
            self._record(found)

    def best_of(self, candidate: Candidate) -> Incumbent | None:
        """The best schedule of one candidate."""
        return self.by_placement.get(candidate.placement)

    def _record(self, found: Incumbent) -> None:
        self.steps.append(
            {
                "found_by": found.found_by,
                "placement": found.candidate.placement,
                "objective_ns": found.objective_ns,
                "seconds": round(found.seconds, 3),
            }
        )
        document = {
            "placement": found.candidate.placement,
            "found_by": found.found_by,
            "schedule": found.schedule.to_document(None),
        }
        self._reporter.incumbent(document, found.objective_ns, found.found_by)
