"""The portfolio: bounds, a stored plan, heuristics, local search and exact engines, each starting
from the best so far.

Every schedule is timed exactly and verified before it counts. The solve ends when the best
schedule meets a proven lower bound, at the time limit, or when asked to stop; it then answers
with the best verified schedule, its bound and its gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from planner.errors import SolverCrash
from planner.pipeline.answer import Findings, infeasible_answer, succeeded_answer
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.collecting import seldom_collected
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.names import StartKind, Step, StoppedBy
from planner.pipeline.portfolio.exact import ExactStep
from planner.pipeline.portfolio.heuristics import (
    CLASSIC_SHARE,
    classic_rows,
    has_to_hurry,
    offer_first,
    offer_rows_for_later,
    rows_made_up,
    run_adaoffload,
    start_from_stored,
)
from planner.pipeline.portfolio.searching import add_starts, is_made_at_once, search
from planner.pipeline.portfolio.state import SolveState
from planner.pipeline.schedule import Schedule
from planner.pipeline.spec import read_spec
from planner.progress import Reporter

SMALL_OPERATIONS = 400
"""Operations up to which an exact engine may prove the optimum in a minute."""
CP_SAT_ATTEMPTS = 2
SEARCH_SHARE_SMALL, SEARCH_SHARE = 0.2, 0.8
"""Share of the remaining time that local search gets before the exact engines."""


def run(
    spec: Mapping[str, Any],
    reporter: Reporter,
    should_stop: Callable[[], bool],
    start: Mapping[str, Any] | None = None,
    time_left_s: float | None = None,
) -> dict[str, Any]:
    """Solve a canonical spec and return its answer as JSON.

    `start` is an incumbent that a reporter received earlier, of this or a similar spec;
    `time_left_s` replaces the spec's time limit when an earlier attempt has used up part of it.
    The answer's `state` is `succeeded`, `infeasible` or `failed`. Raises `SolverCrash` if the
    process of an engine that the spec names died.
    """
    with seldom_collected():
        state = SolveState(read_spec(spec), reporter, should_stop, time_left_s)
        return Portfolio(state).solve(start)


class Portfolio:
    """The steps of one solve, in their order."""

    def __init__(self, state: SolveState) -> None:
        self.state = state
        self.rows: list[dict[str, Any]] = []
        self.started_from: dict[str, Any] | None = None
        self.running: Mapping[str, Any] | None = None
        self.moves = 0
        self.exact: ExactStep | None = None

    def solve(self, start: Mapping[str, Any] | None) -> dict[str, Any]:
        """Run the steps until nothing is left to improve or no time is left."""
        state = self.state
        shortages = [find_infeasibility(c.problem) for c in state.spec.candidates]
        state.candidates = [
            c for c, shortage in zip(state.spec.candidates, shortages, strict=True) if not shortage
        ]
        if not state.candidates:
            state.reporter.phase("explaining why nothing fits")
            return infeasible_answer(state.spec, shortages, time.monotonic() - state.started)
        if start is not None and (start.get("origin") or {}).get("kind") == StartKind.RUNNING_PLAN:
            self.running = start["schedule"]
            state.replaces_running = True
        is_hurried = not state.is_reproducible and has_to_hurry(state)
        if is_hurried:
            # An answer before anything else, and only that if a run goes on without it.
            state.is_brief = state.replaces_running
            state.incumbents.are_reported = not state.is_brief
            self.started_from = start_from_stored(state, start)
            offer_first(state)
        state.reporter.phase("lower bounds")
        for candidate in state.candidates:
            state.add_bounds(candidate, lower_bounds(candidate.problem, state.should_stop))
        if not is_hurried:
            self.started_from = start_from_stored(state, start)
        with state.trace.step(Step.CLASSIC):
            self.rows = classic_rows(state, CLASSIC_SHARE)
            if not is_made_at_once(state):
                offer_rows_for_later(state)
        milp_starts = self._best_schedules()
        if not state.is_done():
            with state.trace.step(Step.ADAOFFLOAD):
                run_adaoffload(state)
        self.exact = ExactStep(state, milp_starts)
        if state.options.engine == "auto":
            self._run_all_engines(self.exact)
        elif not state.is_reproducible:
            with state.trace.step(Step(state.options.engine)):
                self.exact.run(state.options.engine)
        self.rows = rows_made_up(state, self.rows)
        if not state.asked_to_stop():
            state.incumbents.report_latest()
        if state.incumbents.best is None:
            return {
                "state": "failed",
                "code": "no_plan_within_limit",
                "detail": "No schedule passed verification within the time limit.",
            }
        findings = self._findings()
        return succeeded_answer(findings, state.closing(findings.best.candidate))

    def _best_schedules(self) -> dict[str, Schedule]:
        return {
            placement: incumbent.schedule
            for placement, incumbent in self.state.incumbents.by_placement.items()
        }

    def _run_all_engines(self, exact: ExactStep) -> None:
        """Local search, then CP-SAT; small problems are left to it sooner."""
        state = self.state
        if state.is_done():
            return
        with state.trace.step(Step.MORE_STARTS):
            add_starts(state)
            offer_rows_for_later(state)
        if state.is_done():
            return
        with state.trace.step(Step.LOCAL_SEARCH):
            share = SEARCH_SHARE_SMALL if self._is_small() else SEARCH_SHARE
            self.moves = search(state, time.monotonic() + share * state.seconds_left())
        if state.is_reproducible:
            return
        if not state.is_done():
            with state.trace.step(Step.LINEAR_RELAXATION):
                exact.strengthen_bounds()
        if not state.is_done() and not self._run_cp_sat(exact):
            # There is a verified plan already, and the proof is all that is lost.
            with state.trace.step(Step.LOCAL_SEARCH):
                self.moves += search(state, state.deadline)

    def _run_cp_sat(self, exact: ExactStep) -> bool:
        """CP-SAT, once more if its process dies; False if it died again."""
        for _ in range(CP_SAT_ATTEMPTS):
            try:
                with self.state.trace.step(Step.CP_SAT):
                    exact.run("cp_sat")
            except SolverCrash as crash:
                self.state.reporter.log(f"CP-SAT: {crash}")
            else:
                return True
        return False

    def _is_small(self) -> bool:
        return all(c.problem.operations <= SMALL_OPERATIONS for c in self.state.promising())

    def _stopped_by(self) -> StoppedBy:
        state = self.state
        best = state.incumbents.best
        assert best is not None
        if best.objective_ns <= min(state.lower_bound(c).value_ns for c in state.candidates):
            return StoppedBy.PROVEN_OPTIMAL
        if all(map(state.is_settled, state.candidates)):
            return StoppedBy.GAP_REACHED
        if state.asked_to_stop():
            return StoppedBy.ASKED
        out_of_time = self.exact is not None and self.exact.ran_out_of_time
        if out_of_time or time.monotonic() >= state.deadline:
            return StoppedBy.TIME_LIMIT
        return StoppedBy.BUDGET if state.is_reproducible else StoppedBy.NOTHING_LEFT

    def _findings(self) -> Findings:
        state = self.state
        best = state.incumbents.best
        assert best is not None
        return Findings(
            spec=state.spec,
            best=best,
            best_of=state.incumbents.by_placement,
            bounds=state.bounds,
            rows=self.rows,
            exact={} if self.exact is None else self.exact.figures,
            trace=state.trace,
            started_from=self.started_from,
            running=self.running,
            is_brief=state.is_brief,
            moves=self.moves,
            stopped_by=self._stopped_by(),
            solve_seconds=time.monotonic() - state.started,
        )
