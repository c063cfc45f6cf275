"""The exact engines of a solve: MILP (CBC, HiGHS) and CP-SAT, for proof and for improvement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Literal

from planner.pipeline.bounds.lower_bounds import Bound
from planner.pipeline.bounds.relaxation import relaxation_bound
from planner.pipeline.cp_sat.improve import improve_with_cp_sat
from planner.pipeline.cp_sat.messages import CpSatOutcome, CpSatSettings
from planner.pipeline.milp.improve import MilpOutcome, MilpSettings, improve
from planner.pipeline.names import BoundName, FoundBy
from planner.pipeline.portfolio.state import SolveState
from planner.pipeline.schedule import Schedule
from planner.pipeline.spec import Candidate

ExactEngine = Literal["cbc", "highs", "cp_sat"]
NAMES: dict[ExactEngine, FoundBy] = {
    "cbc": FoundBy.CBC,
    "highs": FoundBy.HIGHS,
    "cp_sat": FoundBy.CP_SAT,
}
"""Engines as answers name what found a schedule; a bound of theirs has the same name."""
Adopt = Callable[[Schedule], None]
RELAXATION_SHARE = 0.1
MOST_OPERATIONS = 20_000
"""Beyond, already the model's precedences take longer to write down than there is time."""


class ExactStep:
    """Runs an exact engine on candidates and keeps the figures of each run.

    `figures[placement]` are those of the last run: engine, status, model size, rounds.
    """

    def __init__(self, state: SolveState, milp_starts: dict[str, Schedule]) -> None:
        self.state = state
        self.milp_starts = milp_starts
        self.figures: dict[str, dict[str, Any]] = {}
        self.ran_out_of_time = False

    def run(self, engine: ExactEngine) -> None:
        """The most promising placement first, the others while time remains."""
        for candidate in self.state.promising():
            if self.state.is_done():
                return
            if candidate.problem.operations > MOST_OPERATIONS:
                self.state.reporter.log(f"{candidate.placement} is too large for {engine}")
            elif not self.state.is_settled(candidate):
                self._improve(candidate, engine)

    def strengthen_bounds(self) -> None:
        """The bounds of the MILP's linear relaxation, where the model is small enough."""
        for candidate in self.state.promising():
            if self.state.is_done():
                return
            self.state.reporter.phase(f"linear relaxation ({candidate.placement})")
            bound = relaxation_bound(
                candidate.problem,
                RELAXATION_SHARE * self.state.seconds_left(),
                self.state.should_stop,
            )
            if bound is not None:
                self.state.add_bounds(candidate, [bound])

    def _improve(self, candidate: Candidate, engine: ExactEngine) -> None:
        state = self.state
        name = NAMES[engine]
        state.reporter.phase(f"{engine} ({candidate.placement})")

        def adopt(schedule: Schedule) -> None:
            state.incumbents.offer(candidate, schedule, name)

        outcome = (
            self._run_cp_sat(candidate, adopt)
            if engine == "cp_sat"
            else self._run_milp(candidate, engine, adopt)
        )
        if outcome.schedule is not None:
            adopt(outcome.schedule)
        if outcome.lower_bound_ns is not None:
            state.add_bounds(candidate, [Bound(BoundName(name), outcome.lower_bound_ns)])
        figures = {"engine": engine, **asdict(outcome)}
        for bulky in ("schedule", "log_tail"):
            figures.pop(bulky, None)
        if outcome.status == "stopped" and not state.asked_to_stop():
            figures["status"] = "time_limit"
        self.ran_out_of_time |= figures["status"] == "time_limit"
        self.figures[candidate.placement] = figures

    def _run_milp(
        self, candidate: Candidate, engine: Literal["cbc", "highs"], adopt: Adopt
    ) -> MilpOutcome:
        state = self.state
        settings = MilpSettings(
            engine=engine,
            time_limit_s=state.seconds_left(),
            mip_gap=state.options.mip_gap,
            threads=state.options.threads_here(),
            window_micro_batches=state.options.milp_window_micro_batches,
            lower_bound_ns=state.lower_bound(candidate).value_ns,
        )
        start = self.milp_starts.get(candidate.placement)
        if state.options.adaoffload_warm_start:
            start = self._best(candidate)
        return improve(candidate.problem, start, settings, state.reporter, state.should_stop, adopt)

    def _run_cp_sat(self, candidate: Candidate, adopt: Adopt) -> CpSatOutcome:
        state = self.state
        settings = CpSatSettings(
            time_limit_s=state.seconds_left(),
            mip_gap=state.options.mip_gap,
            threads=state.options.threads_here(),
            seed=state.options.seed,
            lower_bound_ns=state.lower_bound(candidate).value_ns,
        )
        return improve_with_cp_sat(
            candidate.problem,
            self._best(candidate),
            settings,
            state.reporter,
            state.should_stop,
            adopt,
        )

    def _best(self, candidate: Candidate) -> Schedule | None:
        best = self.state.incumbents.best_of(candidate)
        return None if best is None else best.schedule
