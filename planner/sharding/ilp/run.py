"""One run of an engine on a formulation, in process or by way of a file."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import mip

from planner.milp.cbc_log import LogState
from planner.milp.engine import EngineLimits, EngineName, EngineRun
from planner.milp.engine_library import solve_with_library
from planner.milp.engines import ENGINES, LEAST_RUN_S
from planner.milp.in_process import run_in_child
from planner.sharding.ilp.formulation import Formulation, build_model

LARGEST_IN_PROCESS = 5000
"""Columns from which a model is written for an executable, which can be stopped and keeps what it
has. Smaller ones are solved faster than a file is written and read."""
LEAST_IN_PROCESS_S = 0.01


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Which engine solves, and how; `on_log` gets every line of its log."""

    engine: EngineName
    mip_gap: float
    threads: int
    should_stop: Callable[[], bool]
    on_log: Callable[[str], None]

    def limits(self, deadline: float, least_s: float) -> EngineLimits | None:
        """An engine's limits until the deadline (of `time.monotonic`); None if that leaves less
        than it needs to get anywhere."""
        left_s = deadline - time.monotonic()
        return None if left_s < least_s else EngineLimits(left_s, self.mip_gap, self.threads)


def run_engine(
    formulation: Formulation,
    best: Sequence[int] | None,
    settings: EngineSettings,
    deadline: float,
) -> EngineRun | None:
    """Have the engine solve the model until `deadline`; None if there is no time for it.

    `best` is the best plan known, with which an executable begins. Raises `SolverCrash` if the
    engine dies by itself.
    """

    def follow(line: str, state: LogState) -> None:
        settings.on_log(line)

    def build(solver_name: str) -> mip.Model:
        return build_model(formulation, solver_name)

    if formulation.columns < LARGEST_IN_PROCESS:
        limits = settings.limits(deadline, LEAST_IN_PROCESS_S)
        if limits is None:
            return None
        return solve_with_library(build, settings.engine, limits, follow, settings.should_stop)
    with tempfile.TemporaryDirectory(prefix="loadmaster-ilp-") as folder:
        model_file = Path(folder) / "model.lp"
        written = run_in_child(
            lambda: build(mip.CBC).write(str(model_file)),
            time_limit_s=max(0.0, deadline - time.monotonic()),
            should_stop=settings.should_stop,
            on_line=settings.on_log,
        )
        if written.interrupted == "stop":
            return EngineRun("stopped", None, None, 0, written.log_tail)
        limits = settings.limits(deadline, LEAST_RUN_S)
        if limits is None:
            return None
        start = None if best is None else formulation.values(best)
        _, solve = ENGINES[settings.engine]
        return solve(model_file, start, limits, formulation.columns, follow, settings.should_stop)
