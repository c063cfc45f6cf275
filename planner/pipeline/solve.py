"""The portfolio: bounds, classic schedules, AdaOffload and the MILP, each starting from the best.

Every schedule is timed exactly and verified before it counts. The solve ends when the best
schedule meets a proven lower bound, at the time limit, or when asked to stop; it then answers
with the best verified schedule, its bound and its gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from planner.errors import OrderError
from planner.pipeline.adaoffload import AdaOffloadSettings, adaoffload
from planner.pipeline.answer import Findings, infeasible_answer, succeeded_answer
from planner.pipeline.bounds.lower_bounds import Bound, lower_bounds
from planner.pipeline.classic.rows import comparison_rows, row_document
from planner.pipeline.feasibility.decide import find_infeasibility, sequential_schedule
from planner.pipeline.incumbents import Incumbents
from planner.pipeline.milp.improve import MilpOutcome, MilpSettings, improve
from planner.pipeline.progress import Reporter
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.spec import AS_POSTED, Candidate, PipelineSpec, read_spec
from planner.pipeline.timing import orders_of, time_orders

# Kept back from the time limit for the last verification and for writing the answer.
CLOSING_S = 0.5


def run(
    spec: Mapping[str, Any],
    reporter: Reporter,
    should_stop: Callable[[], bool],
    start: Mapping[str, Any] | None = None,
    time_left_s: float | None = None,
) -> dict[str, Any]:
    """Solve a canonical spec and return its answer as JSON.

    `start` is an incumbent that a reporter received earlier; `time_left_s` replaces the spec's
    time limit when an earlier attempt has used up part of it. The answer's `state` is
    `succeeded`, `infeasible` or `failed`. Raises `SolverCrash` if the MILP engine's process died.
    """
    portfolio = Portfolio(read_spec(spec), reporter, should_stop, time_left_s)
    return portfolio.solve(start)


class Portfolio:
    """One solve: the candidates that are feasible, their bounds and the best schedules so far."""

    def __init__(
        self,
        spec: PipelineSpec,
        reporter: Reporter,
        should_stop: Callable[[], bool],
        time_left_s: float | None,
    ) -> None:
        self.spec = spec
        self.reporter = reporter
        self.started = time.monotonic()
        limit = spec.options.time_limit_s if time_left_s is None else time_left_s
        self.deadline = self.started + max(0.0, limit - min(CLOSING_S, limit / 10))
        self._asked_to_stop = should_stop
        self.incumbents = Incumbents(reporter, self.started)
        self.candidates: list[Candidate] = []
        self.bounds: dict[str, list[Bound]] = {}
        self.rows: list[dict[str, Any]] = []
        self.outcomes: dict[str, MilpOutcome] = {}
        self.started_from: str | None = None
        self.without_adaoffload: dict[str, Schedule] = {}

    def solve(self, start: Mapping[str, Any] | None) -> dict[str, Any]:
        """Run the steps in turn until nothing is left to improve or no time is left."""
        shortages = [find_infeasibility(c.problem) for c in self.spec.candidates]
        self.candidates = [
            c for c, shortage in zip(self.spec.candidates, shortages, strict=True) if not shortage
        ]
        if not self.candidates:
            self.reporter.phase("explaining why nothing fits")
            return infeasible_answer(self.spec, shortages, time.monotonic() - self.started)
        self._find_bounds()
        self._resume(start)
        self._run_classic_schedules()
        self._run_adaoffload()
        self._run_milp()
        if self.incumbents.best is None:
            return {
                "state": "failed",
                "code": "no_plan_within_limit",
                "detail": "No schedule passed verification within the time limit.",
            }
        return succeeded_answer(self._findings())

    def should_stop(self) -> bool:
        """Whether the client asked to stop or the time is up."""
        return self._asked_to_stop() or time.monotonic() >= self.deadline

    def lower_bound(self, candidate: Candidate) -> Bound:
        """The best proven bound of one candidate."""
        return self.bounds[candidate.placement][0]

    def is_settled(self, candidate: Candidate) -> bool:
        """Whether this candidate cannot improve the answer by more than the asked gap."""
        best = self.incumbents.best
        if best is None:
            return False
        bound = self.lower_bound(candidate).value_ns
        return bound >= best.objective_ns * (1 - self.spec.options.mip_gap)

    def is_done(self) -> bool:
        """Whether every candidate is settled, or time or patience is over."""
        return self.should_stop() or all(map(self.is_settled, self.candidates))

    def _find_bounds(self) -> None:
        self.reporter.phase("lower bounds")
        for candidate in self.candidates:
            self.bounds[candidate.placement] = lower_bounds(candidate.problem)
        self._report_bound()

    def _report_bound(self) -> None:
        """The bound of the whole request: no placement can do better than the least of theirs."""
        least = min((self.lower_bound(c) for c in self.candidates), key=lambda b: b.value_ns)
        self.reporter.bound(least.name, least.value_ns)

    def _resume(self, start: Mapping[str, Any] | None) -> None:
        """Take up a stored schedule, re-timed; where it no longer applies, start afresh."""
        if start is None:
            return
        for candidate in self.candidates:
            if candidate.placement == start["placement"]:
                ops = [TimedOp(**op) for op in start["schedule"]["ops"]]
                try:
                    schedule = time_orders(candidate.problem, orders_of(candidate.problem, ops))
                except (OrderError, IndexError, KeyError) as error:
                    self.reporter.log(f"the stored schedule does not apply any more: {error}")
                    return
                self.incumbents.offer(candidate, schedule, start.get("found_by", "stored schedule"))
                self.started_from = "stored schedule"

    def _run_classic_schedules(self) -> None:
        """The comparison: each classic schedule that fits is also a start for the rest."""
        self.reporter.phase("classic schedules")
        for candidate in self.candidates:
            posted = candidate.placement == AS_POSTED
            for row in comparison_rows(candidate.problem, self.should_stop):
                if row.hypothetical and not posted:
                    # Where placement is a decision, another candidate has this row for real.
                    continue
                own = {} if posted else {"placement": candidate.placement}
                self.rows.append(row_document(row) | own)
                if row.fits and not row.hypothetical and row.schedule is not None:
                    self.incumbents.offer(candidate, row.schedule, row.name)
            if self.incumbents.best_of(candidate) is None:
                one_at_a_time = partial(sequential_schedule, candidate.problem)
                self._offer(candidate, one_at_a_time, "one micro-batch at a time")
            best = self.incumbents.best_of(candidate)
            if best is not None:
                self.without_adaoffload[candidate.placement] = best.schedule

    def _run_adaoffload(self) -> None:
        options = self.spec.options
        settings = AdaOffloadSettings(
            backward_delay_tolerance_ns=options.backward_delay_tolerance_ns,
            offload_strategy=options.offload_strategy,
            offload_threshold=options.offload_threshold,
        )
        for position, candidate in enumerate(self.candidates):
            if self.is_done():
                return
            self.reporter.phase(f"AdaOffload ({candidate.placement})")
            # Every placement gets a share of a short time limit, not only the first.
            now = time.monotonic()
            ends = now + (self.deadline - now) / (len(self.candidates) - position)
            self._offer(
                candidate, partial(self._adaoffload, candidate, settings, ends), "AdaOffload"
            )

    def _adaoffload(
        self, candidate: Candidate, settings: AdaOffloadSettings, ends: float
    ) -> Schedule:
        def should_stop() -> bool:
            return time.monotonic() >= ends or self.should_stop()

        bound_ns = self.lower_bound(candidate).value_ns
        return adaoffload(candidate.problem, settings, should_stop, lower_bound_ns=bound_ns)

    def _offer(
        self,
        candidate: Candidate,
        make: Callable[[], Schedule],
        found_by: str,
    ) -> None:
        """Make a schedule and offer it; where the search for one was given up, go on without."""
        try:
            self.incumbents.offer(candidate, make(), found_by)
        except OrderError as error:
            self.reporter.log(f"{found_by}: {error}")

    def _run_milp(self) -> None:
        """The MILP on the most promising placement first, on the others while time remains."""
        found = [c for c in self.candidates if self.incumbents.best_of(c) is not None]
        for candidate in sorted(found, key=self._best_objective_ns):
            if self.is_done():
                return
            if not self.is_settled(candidate):
                self._improve(candidate)

    def _best_objective_ns(self, candidate: Candidate) -> int:
        best = self.incumbents.best_of(candidate)
        assert best is not None
        return best.objective_ns

    def _improve(self, candidate: Candidate) -> None:
        options = self.spec.options
        self.reporter.phase(f"{options.engine} ({candidate.placement})")
        settings = MilpSettings(
            engine=options.engine,
            time_limit_s=max(0.0, self.deadline - time.monotonic()),
            mip_gap=options.mip_gap,
            threads=options.threads,
            window_micro_batches=options.milp_window_micro_batches,
            lower_bound_ns=self.lower_bound(candidate).value_ns,
        )

        def adopt(schedule: Schedule) -> None:
            self.incumbents.offer(candidate, schedule, options.engine)

        outcome = improve(
            candidate.problem,
            self._start_for_milp(candidate),
            settings,
            self.reporter,
            self.should_stop,
            adopt,
        )
        self.outcomes[candidate.placement] = outcome
        if outcome.schedule is not None:
            adopt(outcome.schedule)
        if outcome.lower_bound_ns is not None:
            bounds = [
                *self.bounds[candidate.placement],
                Bound(options.engine, outcome.lower_bound_ns),
            ]
            self.bounds[candidate.placement] = sorted(bounds, key=lambda b: -b.value_ns)
            self._report_bound()

    def _start_for_milp(self, candidate: Candidate) -> Schedule | None:
        if not self.spec.options.adaoffload_warm_start:
            return self.without_adaoffload.get(candidate.placement)
        best = self.incumbents.best_of(candidate)
        return None if best is None else best.schedule

    def _stopped_by(self) -> str:
        best = self.incumbents.best
        assert best is not None
        if best.objective_ns <= min(self.lower_bound(c).value_ns for c in self.candidates):
            return "proven optimal"
        if all(map(self.is_settled, self.candidates)):
            return "MIP gap reached"
        if self._asked_to_stop():
            return "asked to stop"
        out_of_time = any(outcome.status == "time_limit" for outcome in self.outcomes.values())
        if out_of_time or time.monotonic() >= self.deadline:
            return "time limit"
        return "nothing left to try"

    def _findings(self) -> Findings:
        best = self.incumbents.best
        assert best is not None
        return Findings(
            spec=self.spec,
            best=best,
            best_of=self.incumbents.by_placement,
            bounds=self.bounds,
            rows=self.rows,
            outcomes=self.outcomes,
            steps=self.incumbents.steps,
            started_from=self.started_from,
            stopped_by=self._stopped_by(),
            solve_seconds=time.monotonic() - self.started,
        )
