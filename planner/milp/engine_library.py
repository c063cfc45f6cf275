"""The engines' libraries through python-mip, in a disposable child: for models that are solved
faster than they are written, read and handed to an executable."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mip
import mip.cbc
import mip.highs

from planner.errors import SolverCrash
from planner.milp.cbc import LOG_DIGITS as CBC_LOG_DIGITS
from planner.milp.cbc_log import LogState, read_cbc_line
from planner.milp.engine import EngineLimits, EngineName, EngineRun, RunStatus
from planner.milp.highs import LOG_DIGITS as HIGHS_LOG_DIGITS
from planner.milp.highs import read_highs_line
from planner.milp.in_process import ChildEnd, run_in_child

FULL_DIGITS = 15
SHARE_OF_LIMIT = 0.9
LARGEST_MARGIN_S = 0.5
"""A library's own limit is shorter than the child's by at most that, so that it ends by itself."""
ABSOLUTE_GAP = 1e-9

_OUTCOMES: dict[mip.OptimizationStatus, RunStatus] = {
    mip.OptimizationStatus.OPTIMAL: "optimal",
    mip.OptimizationStatus.FEASIBLE: "time_limit",
    mip.OptimizationStatus.NO_SOLUTION_FOUND: "time_limit",
    mip.OptimizationStatus.INFEASIBLE: "infeasible",
    mip.OptimizationStatus.INT_INFEASIBLE: "infeasible",
}
SOLVER_NAMES: dict[EngineName, str] = {"cbc": mip.CBC, "highs": mip.HIGHS}


@dataclass(frozen=True)
class _Answer:
    """What a library says of a solved model, in units of the model."""

    status: mip.OptimizationStatus
    values: list[float] | None
    objective: float | None
    bound: float | None
    in_time: bool


def _set_up() -> None:
    """Have the libraries do here what they do once per process, so that no child has to.

    CBC does the most when it first solves. HiGHS then starts threads, which no forked child would
    have, so it only makes a model.
    """
    mip.Model(solver_name=mip.HIGHS)
    model = mip.Model(solver_name=mip.CBC)
    model.verbose = 0
    columns = [model.add_var(obj=1 + number, var_type=mip.BINARY) for number in range(3)]
    for number in range(3):
        pair = [columns[number], columns[number - 1]]
        model.add_constr(mip.LinExpr(pair, [1.0, 1.0], -1.0, mip.GREATER_OR_EQUAL))
    model.optimize()


_set_up()


def solve_with_library(
    build: Callable[[str], mip.Model],
    engine: EngineName,
    limits: EngineLimits,
    on_line: Callable[[str, LogState], None],
    should_stop: Callable[[], bool],
) -> EngineRun:
    """Have a child build a model, for the python-mip solver of the given name, and solve it.

    A stop, or a time limit that the library itself overruns, loses its incumbent; the bound that
    its log had told remains. Raises `SolverCrash` if the child ends without a usable answer.
    """
    read_line = read_cbc_line if engine == "cbc" else read_highs_line
    digits = CBC_LOG_DIGITS if engine == "cbc" else HIGHS_LOG_DIGITS
    margin_s = min(LARGEST_MARGIN_S, (1 - SHARE_OF_LIMIT) * limits.time_limit_s)
    ends = time.monotonic() + limits.time_limit_s - margin_s
    state = LogState()

    def follow(line: str) -> None:
        nonlocal state
        state = read_line(state, line)
        on_line(line, state)

    end = run_in_child(
        lambda: _build_and_solve(build, engine, limits, ends),
        time_limit_s=limits.time_limit_s,
        should_stop=should_stop,
        on_line=follow,
    )
    return _judge(end, state, engine, digits)


def _build_and_solve(
    build: Callable[[str], mip.Model], engine: EngineName, limits: EngineLimits, ends: float
) -> dict[str, Any]:
    model = build(SOLVER_NAMES[engine])
    model.verbose = 1
    threads = limits.threads_here()
    if engine == "highs" or threads > 1:
        # CBC told to use one thread starts one beside its own, which is slower.
        model.threads = threads
    model.max_mip_gap = limits.mip_gap
    model.max_mip_gap_abs = ABSOLUTE_GAP
    status = model.optimize(max_seconds=max(0.001, ends - time.monotonic()))
    values = [variable.x for variable in model.vars] if model.num_solutions else None
    return {
        "status": status.name,
        "values": values,
        "objective": model.objective_value,
        "bound": model.objective_bound,
        "in_time": time.monotonic() < ends,
    }


def _judge(
    end: ChildEnd[dict[str, Any]], state: LogState, engine: EngineName, digits: int
) -> EngineRun:
    if end.result is None:
        cut_short: RunStatus = "stopped" if end.interrupted == "stop" else "time_limit"
        return EngineRun(cut_short, None, state.bound, digits, end.log_tail)
    status = mip.OptimizationStatus[end.result["status"]]
    answer = _Answer(**{**end.result, "status": status})
    outcome = _OUTCOMES.get(answer.status)
    if outcome is None and not answer.in_time:
        # A library that runs out of time at an awkward moment gives up in its own way.
        outcome = "time_limit"
    if outcome is None:
        raise SolverCrash(f"the engine ended with status {answer.status.name}", end.log_tail)
    if outcome == "infeasible":
        # CBC has called models infeasible that it had no time for (python-mip#17).
        if answer.in_time:
            return EngineRun("infeasible", None, None, digits, end.log_tail)
        return EngineRun("time_limit", None, state.bound, digits, end.log_tail)
    if engine == "highs":
        # HiGHS has no bound, and says so with an infinite one, before its first relaxation.
        bound = answer.bound
        if bound is not None and not math.isfinite(bound):
            bound = None
        if outcome == "optimal" and _differ(answer.objective, bound):
            outcome = "gap"
        return EngineRun(outcome, answer.values, bound, FULL_DIGITS, end.log_tail)
    # Its log, not its status, says what CBC has proven: a run that ended at its gap or its limit
    # is optimal too by its status, and a relaxation that was cut short leaves no bound.
    if outcome == "optimal" and state.proven is not None:
        return EngineRun("optimal", answer.values, answer.objective, FULL_DIGITS, end.log_tail)
    if outcome == "optimal" and answer.bound is not None and _is_printed(answer.bound, state.bound):
        label: RunStatus = "gap" if _differ(answer.objective, answer.bound) else "optimal"
        return EngineRun(label, answer.values, answer.bound, FULL_DIGITS, end.log_tail)
    unproven: RunStatus = "gap" if "gap" in (state.result or "") else "time_limit"
    return EngineRun(unproven, answer.values, state.bound, digits, end.log_tail)


def _differ(objective: float | None, bound: float | None) -> bool:
    return (
        objective is None
        or bound is None
        or objective - bound > ABSOLUTE_GAP * max(1.0, abs(objective))
    )


def _is_printed(bound: float, printed: float | None) -> bool:
    """Whether the log gives this bound, to the digits that it has."""
    return printed is not None and abs(bound - printed) <= 10.0 ** (1 - CBC_LOG_DIGITS) * abs(bound)
