"""One run of the CP-SAT solver, watched from the calling thread."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ortools.sat.python import cp_model

from planner.pipeline.cp_sat.model import CpSatModel

POLL_S = 0.05
RunStatus = Literal["optimal", "infeasible", "feasible", "unknown", "invalid"]

STATUSES: dict[Any, RunStatus] = {
    cp_model.OPTIMAL: "optimal",
    cp_model.FEASIBLE: "feasible",
    cp_model.INFEASIBLE: "infeasible",
    cp_model.UNKNOWN: "unknown",
    cp_model.MODEL_INVALID: "invalid",
}


@dataclass(frozen=True)
class Assignment:
    """Starts in units of the operations that a model decides, and its offload decisions."""

    starts: dict[int, int]
    offloads: dict[tuple[int, int], bool]


@dataclass(frozen=True)
class RunLimits:
    """Seconds and threads of a run, and the seed of its random choices."""

    time_s: float
    threads: int
    seed: int


@dataclass(frozen=True)
class Run:
    """How a run ended. `bound` is on the model's objective, None if it proved nothing."""

    status: RunStatus
    bound: float | None
    conflicts: int


class _Collector(cp_model.CpSolverSolutionCallback):
    """Puts every solution into a queue; called from the solver's threads."""

    def __init__(self, model: CpSatModel, events: queue.SimpleQueue[Any]) -> None:
        super().__init__()
        self._build = model.build
        self._events = events

    def on_solution_callback(self) -> None:
        """Read the values of one solution."""
        starts = {i: self.value(variable) for i, variable in self._build.starts.items()}
        offloads = {key: bool(self.value(literal)) for key, literal in self._build.offloads.items()}
        self._events.put(Assignment(starts, offloads))


def run_solver(
    model: CpSatModel,
    limits: RunLimits,
    on_solution: Callable[[Assignment], None],
    on_bound: Callable[[float], None],
    should_stop: Callable[[], bool],
) -> Run:
    """Solve a model until it is done, its time is up or `should_stop` says so.

    The solver runs in a thread of its own, without the GIL; everything that is called is called
    from this thread. Whatever it raises ends the search first.
    """
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.max_time_in_seconds = limits.time_s
    parameters.num_workers = limits.threads
    parameters.random_seed = limits.seed
    parameters.catch_sigint_signal = False
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    solver.best_bound_callback = events.put
    collector = _Collector(model, events)
    result: list[Any] = []

    def solve() -> None:
        try:
            result.append(solver.solve(model.build.model, collector))
        except Exception as error:
            result.append(error)
        events.put(None)

    def handle(event: Any) -> None:
        if isinstance(event, Assignment):
            on_solution(event)
        elif event is not None:
            on_bound(event)

    thread = threading.Thread(target=solve, name="cp-sat")
    deadline = time.monotonic() + limits.time_s
    thread.start()
    try:
        while thread.is_alive():
            with contextlib.suppress(queue.Empty):
                handle(events.get(timeout=POLL_S))
            if should_stop() or time.monotonic() > deadline:
                solver.stop_search()
    finally:
        while thread.is_alive():
            solver.stop_search()
            thread.join(POLL_S)
    while not events.empty():
        handle(events.get())
    if isinstance(result[0], Exception):
        raise result[0]
    status = STATUSES[result[0]]
    bound = None if status in ("infeasible", "invalid") else solver.best_objective_bound
    return Run(status, bound, solver.num_conflicts)
