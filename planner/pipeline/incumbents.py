"""The best schedules so far: nothing enters without passing verification."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planner.errors import Interrupted
from planner.pipeline.bounds.lower_bounds import Bound
from planner.pipeline.late_starts import start_late
from planner.pipeline.objective import objective_ns
from planner.pipeline.pace import Pace
from planner.pipeline.portfolio.trace import Trace
from planner.pipeline.problem import Objective
from planner.pipeline.schedule import Schedule
from planner.pipeline.spec import Candidate
from planner.pipeline.verify import verify
from planner.progress import Reporter, StopCheck, never

LARGE_OPERATIONS = 20_000
REPORTED_OPERATIONS_PER_S = 20_000
SPARE_STARTS = 4


@dataclass(frozen=True)
class Incumbent:
    """A verified schedule of one candidate and what found it."""

    candidate: Candidate
    schedule: Schedule
    found_by: str

    @property
    def objective_ns(self) -> int:
        return objective_ns(self.candidate.problem, self.schedule)


class Incumbents:
    """Keeps the best verified schedule of every candidate and tells of improvements.

    Of what was offered besides, a few of each candidate are kept as starts for a search.
    """

    def __init__(
        self,
        reporter: Reporter,
        trace: Trace,
        pace: Pace | None = None,
        must_drop: StopCheck = never,
        bounds: Mapping[str, Sequence[Bound]] | None = None,
    ) -> None:
        self._reporter = reporter
        self._trace = trace
        self._pace = pace or Pace()
        self._must_drop = must_drop
        self._bounds = {} if bounds is None else bounds
        self.by_placement: dict[str, Incumbent] = {}
        self.best: Incumbent | None = None
        self._spare: dict[str, list[Schedule]] = {}
        self._report_from = trace.started
        self._unreported: Incumbent | None = None
        self.are_reported = True
        """Whether the reporter gets the schedules; the answer has the best one anyway."""

    def offer(
        self,
        candidate: Candidate,
        schedule: Schedule,
        found_by: str,
        verify_s: float | None = None,
    ) -> None:
        """Verify a schedule and keep it if it is the best of its candidate.

        `verify_s` is how long verifying it took, in seconds, where it has just passed.

        A schedule that breaks a rule is logged and dropped, whoever made it. Of large ones, which
        take seconds to verify, those that are no better are dropped at once, and where there is a
        schedule already also one that is being verified when `must_drop` says so.
        """
        self._report_if_due()
        if candidate.problem.objective is Objective.STEADY_SPAN:
            schedule, verify_s = start_late(candidate.problem, schedule), None
        known = self.by_placement.get(candidate.placement)
        value = objective_ns(candidate.problem, schedule)
        is_better = known is None or value < known.objective_ns
        if not is_better and len(schedule.ops) >= LARGE_OPERATIONS:
            return
        if verify_s is None:
            verify_s = self._verified_s(candidate, schedule, found_by)
        if verify_s is None:
            return
        self._pace.measured(len(schedule.ops), verify_s)
        self._trace.made(value)
        self._keep_spare(candidate, schedule)
        if not is_better:
            return
        found = Incumbent(candidate, schedule, found_by)
        self.by_placement[candidate.placement] = found
        if self.best is None or value < self.best.objective_ns:
            self.best = found
            self._trace.improved(found_by, candidate.placement, value)
            self._unreported = found
            self._report_if_due()

    def _verified_s(self, candidate: Candidate, schedule: Schedule, found_by: str) -> float | None:
        """How long verifying took, in seconds; None if the schedule has to be dropped."""
        began = time.monotonic()
        try:
            # Of the first there is no choice: without it there would be no answer.
            violations = verify(
                candidate.problem, schedule, never if self.best is None else self._must_drop
            )
        except Interrupted:
            self._reporter.log(f"dropped a schedule by {found_by}: no time to verify it")
            return None
        if violations:
            self._reporter.log(f"dropped a schedule by {found_by}: {violations[0]}")
            return None
        return time.monotonic() - began

    def best_of(self, candidate: Candidate) -> Incumbent | None:
        """The best schedule of one candidate."""
        return self.by_placement.get(candidate.placement)

    def starts_of(self, candidate: Candidate) -> list[Schedule]:
        """Different valid schedules of one candidate, best first."""
        return list(self._spare.get(candidate.placement, []))

    def _keep_spare(self, candidate: Candidate, schedule: Schedule) -> None:
        spare = self._spare.setdefault(candidate.placement, [])
        values = [objective_ns(candidate.problem, other) for other in spare]
        if objective_ns(candidate.problem, schedule) in values:
            return
        spare.append(schedule)
        spare.sort(key=lambda other: objective_ns(candidate.problem, other))
        del spare[SPARE_STARTS:]

    def report_latest(self) -> None:
        """Report the best schedule if that was put off."""
        if self._unreported is not None and self.are_reported:
            self._report(self._unreported)

    def _report_if_due(self) -> None:
        """Report what is new, unless it is large and another one was reported just now.

        The document of 100,000 operations has 9 MB: reporting each of many improvements would
        take longer than finding them. What is put off is reported at a later call, or by
        `report_latest`, which a solve calls at the end of each step.
        """
        found = self._unreported
        if (
            found is None
            or not self.are_reported
            or time.monotonic() < self._report_from
            or self._must_drop()
        ):
            # The answer will come sooner than the report of a large schedule would.
            return
        self._report(found)
        if len(found.schedule.ops) >= LARGE_OPERATIONS:
            pause_s = len(found.schedule.ops) / REPORTED_OPERATIONS_PER_S
            self._report_from = time.monotonic() + pause_s

    def _report(self, found: Incumbent) -> None:
        self._unreported = None
        placement = found.candidate.placement
        document = {
            "placement": placement,
            "found_by": found.found_by,
            "schedule": found.schedule.to_document(None),
            "bounds": [
                {"name": bound.name, "value_ns": bound.value_ns}
                for bound in self._bounds.get(placement, [])
            ],
        }
        self._reporter.incumbent(document, found.objective_ns, found.found_by)
