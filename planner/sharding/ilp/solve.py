"""Solving an instance as an ILP: the best plan, and how good it is proven to be."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Literal, TypedDict

from planner.errors import Interrupted, SolverCrash
from planner.milp.engine import EngineName, EngineRun
from planner.sharding.ilp.descent import descend
from planner.sharding.ilp.formulation import Exceeded, Formulation, Limits
from planner.sharding.ilp.result import End, IlpResult, IlpStatus
from planner.sharding.ilp.run import EngineSettings, run_engine
from planner.sharding.instance import Instance, Plan, Totals, totals
from planner.sharding.tables import CostTables, Weights

__all__ = ["IlpOptions", "IlpResult", "Objective", "solve_instance"]

PROVEN_WITHIN = 5e-7
"""Relative distance of objective and bound that counts as none: what floating-point engines can
prove."""

Objective = Literal["weighted", "redundancy", "communication"]


class IlpOptions(TypedDict):
    """What every solve has to be told; see `solve_instance`."""

    engine: EngineName
    time_limit_s: float
    mip_gap: float
    threads: int
    should_stop: Callable[[], bool]
    on_log: Callable[[str], None]


def solve_instance(
    instance: Instance,
    *,
    engine: EngineName,
    time_limit_s: float,
    mip_gap: float,
    threads: int,
    should_stop: Callable[[], bool],
    on_log: Callable[[str], None],
    start: Sequence[int] | None = None,
    objective: Objective = "weighted",
    communication_limit_bytes: int | None = None,
    redundancy_limit_bytes: int | None = None,
) -> IlpResult:
    """The plan of least objective within the device's memory and the limits.

    `start` is a plan to begin with; one that breaks a limit is not used. A stop or the end of the
    time gives the best plan found so far, and a quick one is there at once (not where
    communication or redundancy is limited). `communication_limit_bytes` bounds own communication
    and resharding together. `objective` may leave one of the two sums out; the plan's objective
    and the bounds then do too. Figures of the plan are computed exactly from the instance. Raises
    `SolverCrash` if an engine dies by itself.
    """
    limits = Limits(instance.device_memory_bytes, communication_limit_bytes, redundancy_limit_bytes)
    settings = EngineSettings(engine, mip_gap, threads, should_stop, on_log)
    weights = {
        "weighted": Weights(1.0, instance.alpha),
        "redundancy": Weights(1.0, 0.0),
        "communication": Weights(0.0, 1.0),
    }[objective]
    return _Solve(instance, weights, limits, settings, time_limit_s).run(start)


class _Solve:
    """One call of `solve_instance`: the best plan and the best bound so far."""

    def __init__(
        self,
        instance: Instance,
        weights: Weights,
        limits: Limits,
        settings: EngineSettings,
        time_limit_s: float,
    ) -> None:
        self._instance = instance
        self._weights = weights
        self._limits = limits
        self._settings = settings
        self._begun = time.monotonic()
        self._deadline = self._begun + time_limit_s
        self._costs = CostTables(instance)
        self._best: tuple[int, ...] | None = None
        self._objective = math.inf
        self._bound = -math.inf
        self._end: End | None = None
        self._engine_s = 0.0
        self._rounds = 0
        self._log_tail: list[str] = []

    def run(self, start: Sequence[int] | None) -> IlpResult:
        if self._is_hopeless():
            self._bound = math.inf
            return self._result(None)
        self._take_quick_plans(start)
        # No plan costs less than the least of each operator.
        self._bound = float(sum(own.min() for own in self._costs.weighted(self._weights)))
        formulation = None
        if not self._is_good_enough():
            formulation = self._formulated()
        while formulation is not None and self._end is None and not self._is_good_enough():
            self._run_engine(formulation)
        return self._result(formulation)

    def _formulated(self) -> Formulation | None:
        """The ILP; None if told to stop before it was there."""
        known = None if self._best is None else self._objective
        try:
            return Formulation(
                self._costs, self._weights, self._limits, known, self._settings.should_stop
            )
        except Interrupted:
            self._end = "stopped"
            return None

    def _is_hopeless(self) -> bool:
        """Whether the operators' least exceed a limit by themselves."""
        costs, limits = self._costs, self._limits
        of_each = (
            (limits.memory, costs.memory),
            (limits.redundancy, costs.redundant),
            (limits.communication, costs.communication),
        )
        return any(
            limit is not None and sum(int(size.min()) for size in sizes) > limit
            for limit, sizes in of_each
        )

    def _take_quick_plans(self, start: Sequence[int] | None) -> None:
        if start is not None:
            self._take(tuple(start))
        found = descend(self._costs, self._weights, self._limits.memory, self._is_over, self._best)
        if found is not None:
            self._take(found)

    def _take(self, choice: tuple[int, ...]) -> bool:
        """Keep a plan if it is the best so far; whether it is within the limits."""
        sums = totals(self._instance, choice)
        if self._excess(sums) is not None:
            return False
        sent = sums.communication_bytes + sums.resharding_bytes
        objective = (
            self._weights.redundancy * sums.redundant_bytes + self._weights.communication * sent
        )
        if objective < self._objective:
            self._best, self._objective = choice, objective
        return True

    def _excess(self, sums: Totals) -> Exceeded | None:
        limits = self._limits
        if limits.memory is not None and sums.memory_bytes > limits.memory:
            return "memory"
        sent = sums.communication_bytes + sums.resharding_bytes
        if limits.communication is not None and sent > limits.communication:
            return "communication"
        if limits.redundancy is not None and sums.redundant_bytes > limits.redundancy:
            return "redundant"
        return None

    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline or self._settings.should_stop()

    def _is_good_enough(self) -> bool:
        if self._is_proven():
            self._end = "proven"
        elif self._is_within(self._settings.mip_gap * abs(self._objective)):
            self._end = "gap"
        elif self._settings.should_stop():
            self._end = "stopped"
        return self._end is not None

    def _is_proven(self) -> bool:
        return self._is_within(PROVEN_WITHIN * max(1.0, abs(self._objective)))

    def _is_within(self, difference: float) -> bool:
        return self._best is not None and self._objective - self._bound <= difference

    def _run_engine(self, formulation: Formulation) -> None:
        """One run: its plan and its bound are kept; a plan that slipped past the rounded row of a
        limit is cut off, and the engine has to run again."""
        begun = time.monotonic()
        run = run_engine(formulation, self._best, self._settings, self._deadline)
        self._engine_s += time.monotonic() - begun
        if run is None:
            self._end = "time_limit"
            return
        self._rounds += 1
        self._log_tail = run.log_tail
        if run.status == "infeasible":
            self._conclude_infeasible(run)
            return
        if run.bound is not None:
            self._bound = max(self._bound, formulation.bound_bytes(run.bound, run.bound_digits))
        choice = None if run.values is None else formulation.choice(run.values)
        is_within = choice is None or self._take(choice)
        if self._is_good_enough():
            return
        if not is_within and choice is not None and run.status in ("optimal", "gap"):
            exceeded = self._excess(totals(self._instance, choice))
            assert exceeded is not None
            formulation.forbid(choice, exceeded)
        elif run.status == "optimal":
            # As near as the engine's arithmetic gets, which is not near enough to be a proof.
            self._end = "gap"
        else:
            self._end = run.status

    def _conclude_infeasible(self, run: EngineRun) -> None:
        if self._best is not None:
            raise SolverCrash("the engine finds no plan where there is one", run.log_tail)
        self._bound = math.inf
        self._end = "proven"

    def _result(self, formulation: Formulation | None) -> IlpResult:
        status: IlpStatus
        plan = None
        if self._bound == math.inf:
            status = "infeasible"
        elif self._best is None:
            status = "no_plan"
        else:
            status = "optimal" if self._is_proven() else "feasible"
            bound = self._objective if status == "optimal" else min(self._bound, self._objective)
            plan = Plan(
                choice=self._best,
                objective=self._objective,
                memory_bytes=totals(self._instance, self._best).memory_bytes,
                status=status,
                lower_bound=bound,
            )
            self._bound = bound
        return IlpResult(
            plan=plan,
            status=status,
            lower_bound=None if status == "infeasible" else self._bound,
            ended_by=self._end or "proven",
            columns=0 if formulation is None else formulation.columns,
            rows=0 if formulation is None else len(formulation.rows),
            rounds=self._rounds,
            formulate_s=time.monotonic() - self._begun - self._engine_s,
            engine_s=self._engine_s,
            log_tail=self._log_tail,
        )
