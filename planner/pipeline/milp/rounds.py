"""One round: build the whole model or a window's, run an engine on it, read the answer."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.errors import Refuted, SolverCrash
from planner.milp.cbc_log import LogState
from planner.milp.engine import EngineLimits, EngineName, EngineRun
from planner.milp.engines import ENGINES, LEAST_RUN_S
from planner.pipeline.milp.fifo import with_transfers_in_order
from planner.pipeline.milp.formulation import BuildStopped
from planner.pipeline.milp.model import PipelineModel, build_model
from planner.pipeline.milp.readback import read_schedule
from planner.pipeline.milp.start import start_values
from planner.pipeline.milp.window import Window
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.progress import Report

LIVE_DIGITS = 6
"""Significant digits of a bound in a live log."""


@dataclass(frozen=True)
class MilpSettings:
    """`mip_gap` is relative. `window_micro_batches` of None leaves the size to the planner.
    `lower_bound_ns` is a bound already proven on the problem's objective."""

    engine: EngineName
    time_limit_s: float
    mip_gap: float
    threads: int
    window_micro_batches: int | None
    lower_bound_ns: int


def bound_holds(problem: PipelineProblem) -> bool:
    """Whether a bound proven under fixed micro-batch order holds for the problem."""
    fixed = problem.micro_batch_order is MicroBatchOrder.FIXED
    return fixed or (problem.alike and not problem.can_offload)


@dataclass(frozen=True)
class Round:
    """Outcome of one round. `schedule` is what the engine found, if valid; `bound_ns` holds for
    the problem; `counts` are columns, binaries and rows."""

    run: EngineRun
    schedule: Schedule | None
    bound_ns: int | None
    counts: tuple[int, int, int]
    window: Window | None
    build_s: float
    solve_s: float

    def to_document(self, problem: PipelineProblem) -> dict[str, Any]:
        """The round's figures for the provenance of an answer."""
        found = self.schedule
        variables, binaries, constraints = self.counts
        return {
            "window": None if self.window is None else [self.window.first, self.window.end],
            "variables": variables,
            "binaries": binaries,
            "constraints": constraints,
            "build_s": round(self.build_s, 3),
            "solve_s": round(self.solve_s, 3),
            "status": self.run.status,
            "objective_ns": None if found is None else objective_ns(problem, found),
            "lower_bound_ns": self.bound_ns,
        }


def solve_round(
    problem: PipelineProblem,
    best: Schedule | None,
    window: Window | None,
    settings: MilpSettings,
    deadline: float,
    report: Report,
    should_stop: Callable[[], bool],
) -> Round | None:
    """Build and solve one model until `deadline` (of `time.monotonic`).

    None if there was no time to build it, or if it leaves nothing to decide. Raises
    `SolverCrash`.
    """
    begun = time.monotonic()
    try:
        model = build_model(
            problem,
            best_ns=None if best is None else objective_ns(problem, best),
            lower_bound_ns=settings.lower_bound_ns,
            offload=None if window is None else window.settled_offloads(problem),
            add_window=None if window is None else window.add_order,
            should_end=lambda: should_stop() or time.monotonic() > deadline,
        )
    except BuildStopped:
        return None
    except Refuted:
        # An incumbent whose ties admit no strict order has no window; another one will do.
        return None
    counts = (len(model.build.columns), model.build.binaries, model.build.rows)
    proves = window is None and bound_holds(problem)
    name, engine = ENGINES[settings.engine]
    follower = _Follower(report, model, name, proves)
    with tempfile.TemporaryDirectory(prefix="loadmaster-milp-") as folder:
        model_file = Path(folder) / "model.lp"
        model.build.model.write(str(model_file))
        start = None
        if best is not None:
            start = start_values(model, with_transfers_in_order(problem, best))
        built = time.monotonic()
        if deadline - built < LEAST_RUN_S:
            return None
        limits = EngineLimits(deadline - built, settings.mip_gap, settings.threads)
        run = engine(model_file, start, limits, counts[0], follower.line, should_stop)
    if run.status == "infeasible":
        if window is None:
            raise SolverCrash("the engine finds no schedule where there is one", run.log_tail)
        # Ties in the incumbent can leave a window without a strict order.
        return None
    found = None if run.values is None else read_schedule(problem, model, run.values)
    bound = follower.bound(run.bound, run.bound_digits)
    return Round(run, found, bound, counts, window, built - begun, time.monotonic() - built)


class _Follower:
    """Hands on an engine's lines, and its bound whenever it rises."""

    def __init__(self, report: Report, model: PipelineModel, name: str, proves: bool) -> None:
        self._report = report
        self._model = model
        self._name = name
        self._proves = proves
        self._highest = 0

    def line(self, line: str, state: LogState) -> None:
        """One more line of the log, and what the log has said up to it."""
        self._report.log(line)
        self.bound(state.bound, LIVE_DIGITS)

    def bound(self, units: float | None, digits: int) -> int | None:
        """A bound in units of the model as one in ns; None if it does not hold."""
        if units is None or not self._proves:
            return None
        bound = self._model.bound_ns(units, digits)
        if bound > self._highest:
            self._highest = bound
            self._report.bound(self._name, bound)
        return bound
