"""Improving a schedule, and proving how good it is, with CP-SAT.

A problem that is small enough is solved whole and gives a bound. Larger ones are improved by
large neighbourhood search: part of the incumbent is decided anew, the rest keeps its order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from planner.pipeline.cp_sat.formulation import BuildStopped
from planner.pipeline.cp_sat.messages import CpSatOutcome, CpSatSettings, Status
from planner.pipeline.cp_sat.model import build_model
from planner.pipeline.cp_sat.neighbourhoods import NeighbourhoodSearch
from planner.pipeline.cp_sat.readback import best_schedule, decided_ops
from planner.pipeline.cp_sat.scale import TimeScale
from planner.pipeline.cp_sat.scope import Scope
from planner.pipeline.cp_sat.solving import Assignment, Run, RunLimits, run_solver
from planner.pipeline.cp_sat.whole import whole_scope
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.progress import Report

NAME = "CP-SAT"
WHOLE_AT_ONCE = 1500
"""Estimated order literals up to which the whole problem is solved from the start."""
WHOLE_AT_ALL = 20_000
"""Estimated order literals up to which it is solved whole at all, for a bound."""
SHARE_OF_BOUND = 0.1
"""Share of the time limit that raising the bound by precedences and memory alone may take."""
FIRST_ATTEMPT_SHARE = 0.05
"""Share of the time limit that the first attempt at the whole of a larger problem may take."""
ATTEMPT_GROWTH = 2.0
PATIENCE_NEIGHBOURHOODS = 20
"""So many neighbourhoods in a row without an improvement lead to an attempt at the whole."""
LEAST_RUN_S = 0.3
"""A run with less time is not begun."""
PATIENCE_S = 2.0
"""A run that has found something better is begun anew, with the tighter model that this allows,
once it has found nothing more for so long, or for a share of the time it took so far."""
PATIENCE_SHARE = 0.25
MOST_BISECTIONS = 12


def ignore(units: float) -> None:
    """The bound of a neighbourhood says nothing about the problem."""


def improve_here(
    problem: PipelineProblem,
    start: Schedule | None,
    settings: CpSatSettings,
    report: Report,
    should_stop: Callable[[], bool],
    on_incumbent: Callable[[Schedule], None] | None = None,
) -> CpSatOutcome:
    """What `improve_with_cp_sat` does, in this process. All callbacks are called from the calling
    thread."""
    return _Improvement(problem, start, settings, report, should_stop, on_incumbent).run()


def estimated_literals(problem: PipelineProblem) -> int:
    """About how many order literals the whole model has."""
    total = 0.0
    free = problem.micro_batch_order is MicroBatchOrder.FREE
    for stages in problem.stages_of_device:
        chains = sum(5 if any(problem.stages[s].offload_bytes) else 3 for s in stages)
        pairs = chains * chains / 2 if free else chains * (chains - 1) / 4
        total += pairs * problem.micro_batches**2
    return round(total)


@dataclass
class _Improvement:
    """One call of `improve_here`."""

    problem: PipelineProblem
    start: Schedule | None
    settings: CpSatSettings
    report: Report
    should_stop: Callable[[], bool]
    on_incumbent: Callable[[Schedule], None] | None
    status: Status = "time_limit"
    bound_ns: int = 0
    largest: tuple[int, int] = (0, 0)
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> CpSatOutcome:
        self.deadline = time.monotonic() + self.settings.time_limit_s
        problem = self.problem
        free = problem.micro_batch_order is MicroBatchOrder.FREE
        if free and problem.alike and not problem.can_offload:
            # Exchanging the numbers of micro-batches stage by stage loses nothing here.
            self.modelled = replace(problem, micro_batch_order=MicroBatchOrder.FIXED)
        else:
            self.modelled = problem
        self.scale = TimeScale.coarsest(self.modelled)
        self.best = sequential_schedule(problem) if self.start is None else self.start
        if self.start is None:
            self._announce(self.best)
        size = estimated_literals(self.modelled)
        if size <= WHOLE_AT_ONCE:
            self._raise_bound(self.deadline)
            self._solve_whole(self.deadline)
        else:
            self._solve_in_parts(size)
        self._is_good_enough()
        variables, constraints = self.largest
        return CpSatOutcome(
            schedule=None if self.best is self.start else self.best,
            lower_bound_ns=self.bound_ns or None,
            status=self.status,
            variables=variables,
            constraints=constraints,
            rounds=self.rounds,
        )

    def _solve_in_parts(self, size: int) -> None:
        """Neighbourhoods until they stall, an attempt at the whole, and again with more time.

        A proof takes little time once the incumbent is the optimum and much before, so the whole
        is tried often and, at first, briefly.
        """
        self._raise_bound(time.monotonic() + SHARE_OF_BOUND * self.settings.time_limit_s)
        search = NeighbourhoodSearch(self.modelled, self.scale, self.settings.seed)
        attempt_s = FIRST_ATTEMPT_SHARE * self.settings.time_limit_s
        while not self._is_over(self.deadline):
            self._search_neighbourhoods(search, self.deadline)
            if size <= WHOLE_AT_ALL:
                self._solve_whole(min(self.deadline, time.monotonic() + attempt_s))
                attempt_s *= ATTEMPT_GROWTH

    # The whole problem.

    def _solve_whole(self, deadline: float) -> None:
        """Look for something better than the best again and again, until there is nothing."""
        scale = self.scale
        while not self._is_over(deadline):
            before = self.best
            most = (objective_ns(self.problem, self.best) - 1) // scale.unit_ns
            scope = self._whole_scope(scale, most, deadline)
            if scope is None:
                return
            run = self._run_whole(scope, deadline)
            if run is None or run.status == "invalid":
                return
            if run.status == "infeasible":
                self._adopt_bound(scale.bound_ns(most + 1))
            if run.status in ("infeasible", "optimal") and self.best is before:
                if scale.is_exact:
                    return
                scale = replace(scale, unit_ns=1)

    def _raise_bound(self, deadline: float) -> None:
        """Raise the bound to the least objective that precedences and memory do not exclude."""
        low = self.scale.least_objective_units(self._known_bound_ns())
        high = (objective_ns(self.problem, self.best) - 1) // self.scale.unit_ns
        most = high
        for _ in range(MOST_BISECTIONS):
            if low > high or self._is_over(deadline):
                return
            middle = high if high == most else (low + high) // 2
            scope = self._whole_scope(self.scale, middle, deadline)
            if scope is None and self._known_bound_ns() < self.scale.bound_ns(middle + 1):
                return
            if scope is None:
                low = middle + 1
            else:
                high = middle - 1

    def _whole_scope(self, scale: TimeScale, most: int, deadline: float) -> Scope | None:
        """The scope for at most `most` units. None if there is no time, or if it is empty, which
        is a bound."""

        def check_time() -> None:
            if self.should_stop() or time.monotonic() > deadline:
                raise BuildStopped

        known = self._known_bound_ns()
        try:
            scope = whole_scope(
                self.modelled, scale, least_ns=known, most_units=most, check_time=check_time
            )
        except BuildStopped:
            return None
        if scope is None:
            self._adopt_bound(scale.bound_ns(most + 1))
        return scope

    def _run_whole(self, scope: Scope, deadline: float) -> Run | None:
        begun = time.monotonic()
        found_at: list[float] = []

        def on_solution(found: Assignment) -> None:
            if self._offer(best_schedule(self.problem, decided_ops(scope, found))):
                found_at.append(time.monotonic())

        def on_bound(units: float) -> None:
            self._adopt_bound(scope.scale.bound_ns(units))

        def should_end() -> bool:
            if self.should_stop() or self._is_good_enough():
                return True
            if not found_at:
                return False
            patience = max(PATIENCE_S, PATIENCE_SHARE * (found_at[-1] - begun))
            return time.monotonic() - found_at[-1] > patience

        return self._run(scope, deadline, on_solution, on_bound, should_end, "whole")

    # Neighbourhoods.

    def _search_neighbourhoods(self, search: NeighbourhoodSearch, deadline: float) -> None:
        """Decide parts of the incumbent anew until a number of them in a row does not help."""
        failures = 0
        while failures < PATIENCE_NEIGHBOURHOODS and not self._is_over(deadline):
            scope = search.next_scope(self.best, self._known_bound_ns())
            if scope is None:
                failures += 1
                continue
            ends = min(deadline, time.monotonic() + search.time_limit_s)
            found: list[Assignment] = []
            run = self._run(scope, ends, found.append, ignore, self.should_stop, search.kind)
            better = False
            if found:
                schedule = best_schedule(self.problem, search.assembled(found[-1], scope))
                better = self._offer(schedule)
                if schedule is not None and not better:
                    self._move_to(schedule)
            failures = 0 if better else failures + 1
            search.learn(run, better)

    def _move_to(self, schedule: Schedule) -> None:
        """Go on from a schedule that is as good: another neighbourhood may help from there."""
        if objective_ns(self.problem, schedule) == objective_ns(self.problem, self.best):
            if self.best is self.start:
                self.start = schedule
            self.best = schedule

    # What both share.

    def _run(
        self,
        scope: Scope,
        deadline: float,
        on_solution: Callable[[Assignment], None],
        on_bound: Callable[[float], None],
        should_end: Callable[[], bool],
        kind: str,
    ) -> Run | None:
        """Build and solve one model; None if there was no time for it."""
        begun = time.monotonic()
        try:
            model = build_model(scope, lambda: should_end() or time.monotonic() > deadline)
        except BuildStopped:
            return None
        self.largest = max(self.largest, model.counts)
        built = time.monotonic()
        if deadline - built < LEAST_RUN_S:
            return None
        if model.flaw:
            self.report.log(f"CP-SAT: {model.flaw}")
        limits = RunLimits(deadline - built, self.settings.threads, self.settings.seed)
        run = run_solver(model, limits, on_solution, on_bound, should_end)
        if run.bound is not None:
            on_bound(run.bound)
        variables, constraints = model.counts
        self.rounds.append(
            {
                "kind": kind,
                "variables": variables,
                "constraints": constraints,
                "build_s": round(built - begun, 3),
                "solve_s": round(time.monotonic() - built, 3),
                "status": run.status,
                "objective_ns": objective_ns(self.problem, self.best),
                "lower_bound_ns": self.bound_ns or None,
            }
        )
        return run

    def _offer(self, schedule: Schedule | None) -> bool:
        """Keep a schedule if it is better; says whether it is."""
        if schedule is None:
            return False
        if objective_ns(self.problem, schedule) >= objective_ns(self.problem, self.best):
            return False
        self.best = schedule
        self._announce(schedule)
        return True

    def _announce(self, schedule: Schedule) -> None:
        if self.on_incumbent is not None:
            self.on_incumbent(schedule)

    def _known_bound_ns(self) -> int:
        return max(self.bound_ns, self.settings.lower_bound_ns)

    def _adopt_bound(self, value_ns: int) -> None:
        if value_ns > self._known_bound_ns():
            self.bound_ns = value_ns
            self.report.bound(NAME, value_ns)

    def _is_over(self, deadline: float) -> bool:
        if self._is_good_enough():
            return True
        if self.should_stop():
            self.status = "stopped"
            return True
        return deadline - time.monotonic() < LEAST_RUN_S

    def _is_good_enough(self) -> bool:
        """Whether a bound is met (or nearly, as the gap allows): then nothing is left to do."""
        objective = objective_ns(self.problem, self.best)
        bound = self._known_bound_ns()
        if bound >= objective:
            self.status = "optimal"
            return True
        if objective - bound <= self.settings.mip_gap * objective:
            self.status = "gap"
            return True
        return False
