"""The LP relaxation of the pipeline MILP, cuts included, as a lower bound.

The model of a horizon holds for every schedule that is no longer, so its relaxation proves the
lesser of its own value and one nanosecond beyond the horizon. The nearer the horizon, the smaller
the big-M and the stronger the relaxation: it is solved with a horizon just above the bound known
so far, and again from the new bound as long as that rises. Before that, horizons are raised for
which the precedences that they and memory imply contradict one another (destructive improvement:
Klein and Scholl, 1999).

HiGHS works with floating-point tolerances. Its objective is not used; its row multipliers y are:
for rows A x <= b and bounded columns, any y <= 0 gives the bound y b + the least of (c - y A) x
over the columns' bounds (Neumaier and Shcherbina, 2004).
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import highsbox

from planner.errors import Refuted, SolverCrash
from planner.milp.highs import highs_path
from planner.milp.process import run_supervised
from planner.pipeline.bounds.lower_bounds import Bound, lower_bounds, time_grid_ns
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.milp.formulation import BuildStopped
from planner.pipeline.milp.graph import PrecedenceGraph
from planner.pipeline.milp.improve import estimated_binaries
from planner.pipeline.milp.model import PipelineModel, build_model
from planner.pipeline.milp.rounds import bound_holds
from planner.pipeline.milp.windows import tighten
from planner.pipeline.names import BoundName
from planner.pipeline.problem import PipelineProblem

LONGEST_STEP = 64
SHORTEST_STEP = 20_000
"""Horizons to refute lie between these parts of the bound further on."""
MOST_BINARIES = 6000
"""Estimated order binaries of a model above which no relaxation is tried."""
MOST_DIVISORS = 10**11
"""Horizon in divisors of all times up to which a model's times are exact."""
FLOAT_MARGIN = 1e-10
"""Relative error allowed for in sums of floating-point numbers of one relaxation."""
LEAST_S = 0.2


def relaxation_bound(
    problem: PipelineProblem, time_limit_s: float, should_stop: Callable[[], bool]
) -> Bound | None:
    """A bound above those of `lower_bounds`, proven within the limit.

    It is named "implied precedences" where no linear program raised it any more. None if nothing
    more is proven, if the problem is too large or has no schedule, or if the model doesn't stand
    for all its schedules (micro-batches that differ, or offloads, under free order).
    """
    deadline = time.monotonic() + time_limit_s
    is_small = estimated_binaries(problem, problem.micro_batches) <= MOST_BINARIES
    if not (is_small and bound_holds(problem)) or find_infeasibility(problem) is not None:
        return None

    def is_over() -> bool:
        return should_stop() or time.monotonic() > deadline - LEAST_S

    grid = time_grid_ns(problem)
    known = lower_bounds(problem)[0]
    best = known
    try:
        refuted = _refuted_up_to_ns(problem, known, grid, is_over)
        if refuted > known.value_ns:
            best = Bound(BoundName.IMPLIED_PRECEDENCES, refuted)
        while not is_over():
            proven = best.value_ns
            model = build_model(problem, best_ns=proven, lower_bound_ns=proven, should_end=is_over)
            higher = -(-_relaxation_ns(model, deadline, is_over) // grid) * grid
            if higher <= proven:
                break
            best = Bound(BoundName.LP_RELAXATION, higher)
    except (BuildStopped, Refuted):
        # Out of time, or the horizon is refuted while the model is built: what was proven stands.
        pass
    return None if best is known else best


def _refuted_up_to_ns(
    problem: PipelineProblem, known: Bound, grid: int, is_over: Callable[[], bool]
) -> int:
    """The bound after horizons whose implied precedences form a cycle, in halving steps."""

    def check_time() -> None:
        if is_over():
            raise BuildStopped

    def is_refuted(horizon: int) -> bool:
        try:
            tighten(PrecedenceGraph(problem), horizon, check_time=check_time)
        except Refuted:
            return True
        return False

    proven = known.value_ns
    try:
        if not is_refuted(proven):
            return proven
        proven = (proven // grid + 1) * grid
        step = max(grid, proven // LONGEST_STEP)
        while step >= max(grid, proven // SHORTEST_STEP):
            if is_refuted(proven + step):
                proven = ((proven + step) // grid + 1) * grid
            else:
                step //= 2
    except BuildStopped:
        pass
    return proven


def _relaxation_ns(model: PipelineModel, deadline: float, is_over: Callable[[], bool]) -> int:
    """What a model's relaxation proves; 0 if there was no time, or if its times are rounded."""
    horizon = model.build.windows.horizon_ns
    if horizon > MOST_DIVISORS * model.divisor_ns:
        return 0
    multipliers = _row_multipliers(model, deadline, is_over)
    return 0 if multipliers is None else min(_proven_ns(model, multipliers), horizon + 1)


def _row_multipliers(
    model: PipelineModel, deadline: float, is_over: Callable[[], bool]
) -> list[float] | None:
    """What HiGHS answers as the rows' dual values; None if it is stopped or proves nothing."""
    with tempfile.TemporaryDirectory(prefix="loadmaster-relaxation-") as folder:
        model_file = Path(folder) / "model.lp"
        solution_file = Path(folder) / "solution"
        options_file = Path(folder) / "options"
        model.build.model.write(str(model_file))
        options_file.write_text(
            f"solve_relaxation = true\nlog_file = {Path(folder) / 'log'}\nthreads = 1\n"
        )
        arguments: list[str | Path] = [highs_path(), model_file]
        arguments += ["--options_file", options_file, "--solution_file", solution_file]
        try:
            end = run_supervised(
                arguments,
                time_limit_s=max(LEAST_S, deadline - time.monotonic()),
                should_stop=is_over,
                on_line=lambda line: None,
                environment={"LD_LIBRARY_PATH": str(highsbox.highs_lib_dir())},
            )
        except SolverCrash:
            return None
        if end.interrupted is not None or end.returncode != 0 or not solution_file.exists():
            return None
        return read_row_duals(solution_file.read_text(), model.build.rows)


def read_row_duals(text: str, rows: int) -> list[float] | None:
    """The dual values of all rows in a solution file of HiGHS; None if it has none, or cannot be
    read: a file may have been cut short on a full disk, and no bound is proven then."""
    _, _, duals = text.partition("# Dual solution values")
    _, found, listed = duals.partition("# Rows")
    if not found:
        return None
    values = [0.0] * rows
    try:
        for line in listed.splitlines()[1 : rows + 1]:
            name, _, value = line.partition(" ")
            values[int(name.removeprefix("constr(").removesuffix(")"))] = float(value)
    except (ValueError, IndexError):
        return None
    return values


def _proven_ns(model: PipelineModel, multipliers: list[float]) -> int:
    """The bound that these multipliers prove, whatever they are, in ns and rounded up."""
    build = model.build
    columns = len(build.columns)
    reduced = [0.0] * columns
    reduced[model.objective] = 1.0
    magnitude = [0.0] * columns
    terms: list[float] = []
    for constraint, multiplier in zip(build.model.constrs, multipliers, strict=True):
        y = min(0.0, multiplier)
        if not y or not math.isfinite(y):
            continue
        terms.append(y * constraint.rhs)
        for variable, coefficient in constraint.expr.expr.items():
            reduced[variable.idx] -= y * coefficient
            magnitude[variable.idx] += abs(y * coefficient)
    error = sum(map(abs, terms))
    for variable, cost, size in zip(build.model.vars, reduced, magnitude, strict=True):
        terms.append(cost * (variable.lb if cost > 0 else variable.ub))
        error += (size + 1.0) * max(abs(variable.lb), abs(variable.ub))
    units = math.fsum(terms) - FLOAT_MARGIN * error
    return max(0, math.ceil(units * build.unit_ns * (1 - FLOAT_MARGIN)))
