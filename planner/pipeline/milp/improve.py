"""Improving a schedule, and proving how good it is, with a MILP engine.

A model that is small enough is solved whole and gives a bound. Beyond that a sequence of windows
slides over the incumbent; it gives better schedules, never a bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from planner.milp.engine import Status
from planner.pipeline.milp.relabel import (
    common_order,
    inverse,
    renumber_problem,
    renumber_schedule,
)
from planner.pipeline.milp.rounds import MilpSettings, Round, solve_round
from planner.pipeline.milp.window import Window
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.progress import Report

__all__ = ["MilpOutcome", "MilpSettings", "improve"]

WHOLE_AT_ONCE = 900
"""Estimated order binaries up to which the whole model is solved from the start."""
WHOLE_AFTER_WINDOWS = 3000
"""Estimated order binaries up to which it follows windows, for its bound."""
WHOLE_WITH_TIME_LEFT = 20_000
"""Estimated order binaries up to which it is tried with the time that windows leave."""
WINDOW_BINARIES = 900
"""Estimated order binaries of a window whose size is left to the planner."""
SHARE_OF_WINDOWS = 0.4
LEAST_ROUND_S = 1.0
"""A round with less time is not begun."""
LEAST_WINDOW_S = 2.0
BUILDS_PER_WINDOW = 4.0
"""A window gets at least so many times what building the last one took."""


@dataclass(frozen=True)
class MilpOutcome:
    """`schedule` is better than the start, or None. `lower_bound_ns` bounds the problem's own
    objective; None if the engine proved nothing about it. `rounds` has one entry per engine run;
    the counts are those of the largest model."""

    schedule: Schedule | None
    lower_bound_ns: int | None
    status: Status
    variables: int
    binaries: int
    constraints: int
    rounds: list[dict[str, Any]]
    log_tail: list[str]


def improve(
    problem: PipelineProblem,
    start: Schedule | None,
    settings: MilpSettings,
    report: Report,
    should_stop: Callable[[], bool],
    on_incumbent: Callable[[Schedule], None] | None = None,
) -> MilpOutcome:
    """Improve `start` within the time limit, model building included.

    The model keeps one order of the micro-batches on every stage: 0..M-1, or, where the problem
    leaves it free, that of the start. `on_incumbent` gets every better schedule. Raises
    `SolverCrash` if the engine's process dies by itself.
    """
    order: tuple[int, ...] | None = tuple(range(problem.micro_batches))
    if start is not None and problem.micro_batch_order is MicroBatchOrder.FREE:
        order = common_order(problem, start)
    if order is None or order == tuple(range(problem.micro_batches)):
        return _Improvement(
            problem, start, order is not None, settings, report, should_stop, on_incumbent
        ).run()
    back = inverse(order)
    outcome = _Improvement(
        renumber_problem(problem, order),
        None if start is None else renumber_schedule(start, order),
        True,
        settings,
        report,
        should_stop,
        None if on_incumbent is None else lambda s: on_incumbent(renumber_schedule(s, back)),
    ).run()
    found = outcome.schedule
    return replace(outcome, schedule=None if found is None else renumber_schedule(found, back))


def estimated_binaries(problem: PipelineProblem, micro_batches: int) -> int:
    """About how many order binaries a model of so many micro-batches has."""
    total = 0.0
    for stages in problem.stages_of_device:
        chains = sum(5 if any(problem.stages[s].offload_bytes) else 3 for s in stages)
        total += chains * (chains - 1) / 4 * micro_batches**2
    return round(total)


@dataclass
class _Improvement:
    """One call of `improve`. `is_usable` says that the start follows the model's order."""

    problem: PipelineProblem
    start: Schedule | None
    is_usable: bool
    settings: MilpSettings
    report: Report
    should_stop: Callable[[], bool]
    on_incumbent: Callable[[Schedule], None] | None
    status: Status = "time_limit"
    bound_ns: int | None = None
    largest: tuple[int, int, int] = (0, 0, 0)
    build_s: float = 0.0
    rounds: list[dict[str, Any]] = field(default_factory=list)
    log_tail: list[str] = field(default_factory=list)

    def run(self) -> MilpOutcome:
        self.deadline = time.monotonic() + self.settings.time_limit_s
        self.best = self.start
        size = estimated_binaries(self.problem, self.problem.micro_batches)
        window = self.settings.window_micro_batches
        windowed = window is not None and window < self.problem.micro_batches
        if self.best is None or not self.is_usable or (not windowed and size <= WHOLE_AT_ONCE):
            self._solve_whole()
        elif windowed:
            self._slide(self.deadline)
        else:
            share = SHARE_OF_WINDOWS if size <= WHOLE_AFTER_WINDOWS else 1.0
            self._slide(time.monotonic() + share * self.settings.time_limit_s)
            if self.status != "stopped" and size <= WHOLE_WITH_TIME_LEFT:
                self._solve_whole()
        variables, binaries, constraints = self.largest
        return MilpOutcome(
            schedule=None if self.best is self.start else self.best,
            lower_bound_ns=self.bound_ns,
            status=self.status,
            variables=variables,
            binaries=binaries,
            constraints=constraints,
            rounds=self.rounds,
            log_tail=self.log_tail,
        )

    def _solve_whole(self) -> None:
        if self._is_over(self.deadline):
            return
        usable = self.best if self.is_usable else None
        outcome = self._solve(usable, None, self.deadline)
        if outcome is not None and not self._is_good_enough():
            ended = outcome.run.status
            self.status = "gap" if ended == "optimal" or ended == "infeasible" else ended

    def _slide(self, deadline: float) -> None:
        """Pass over the iteration with windows until none helps, then with larger ones."""
        count = self.problem.micro_batches
        size = self.settings.window_micro_batches or self._window_size()
        while size < count:
            before = self.best
            firsts = [*range(0, count - size, max(1, size // 2)), count - size]
            for position, first in enumerate(firsts):
                if self._is_over(deadline):
                    return
                assert self.best is not None
                now = time.monotonic()
                share = (deadline - now) / (len(firsts) - position)
                least = max(LEAST_WINDOW_S, BUILDS_PER_WINDOW * self.build_s)
                window = Window(self.best, first, first + size)
                outcome = self._solve(self.best, window, min(deadline, now + max(share, least)))
                if outcome is None:
                    self.build_s = max(self.build_s, time.monotonic() - now)
                    self.report.log(f"micro-batches {first} to {first + size - 1}: not solved")
                else:
                    self.build_s = outcome.build_s
            if self.best is before:
                if self.settings.window_micro_batches is not None:
                    self.status = "gap"
                    return
                size += max(1, size // 2)

    def _window_size(self) -> int:
        size = 2
        while estimated_binaries(self.problem, size + 1) <= WINDOW_BINARIES:
            size += 1
        return size

    def _solve(self, best: Schedule | None, window: Window | None, deadline: float) -> Round | None:
        """One round; keeps what it found if it is better, and its bound."""
        outcome = solve_round(
            self.problem, best, window, self.settings, deadline, self.report, self.should_stop
        )
        if outcome is None:
            return None
        self.log_tail = outcome.run.log_tail
        self.largest = max(self.largest, outcome.counts)
        self.rounds.append(outcome.to_document(self.problem))
        if outcome.bound_ns is not None:
            self.bound_ns = max(self.bound_ns or 0, outcome.bound_ns)
        found = outcome.schedule
        if found is not None and (self.best is None or self._gain(found) > 0):
            self.best = found
            if self.on_incumbent is not None:
                self.on_incumbent(found)
        return outcome

    def _gain(self, found: Schedule) -> int:
        assert self.best is not None
        return objective_ns(self.problem, self.best) - objective_ns(self.problem, found)

    def _is_over(self, deadline: float) -> bool:
        if self.should_stop():
            self.status = "stopped"
            return True
        if deadline - time.monotonic() < LEAST_ROUND_S:
            self.status = "time_limit"
            return True
        return self._is_good_enough()

    def _is_good_enough(self) -> bool:
        """Whether a bound is met (or nearly, as the gap allows): then nothing is left to do."""
        if self.best is None:
            return False
        objective = objective_ns(self.problem, self.best)
        bound = max(self.bound_ns or 0, self.settings.lower_bound_ns)
        if bound >= objective:
            self.status = "optimal"
            return True
        if objective - bound <= self.settings.mip_gap * objective:
            self.status = "gap"
            return True
        return False
