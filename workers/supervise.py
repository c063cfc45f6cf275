"""One attempt at a solve: run the solver process, keep the lease, store what it finds.

The supervisor decides when the attempt ends: with the solver's answer or death, when the last
job was cancelled, when the worker shuts down, when the lease was lost, or when the solver is
still there long after its time limit.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy.exc import InterfaceError, OperationalError

from app.services.attempts import Attempts, Progress, Standing, WorkOrder
from app.services.transitions import Answered, Crashed, Ending, GivenBack, Overran
from app.settings import Settings
from workers.solver_child import SolverChild

logger = logging.getLogger(__name__)
TICK_S = 0.2
NEWS_INTERVAL_S = 1.0
LAST_WRITE_S = 30.0
MAX_PENDING_LINES = 500
RESULT_STATES = ("succeeded", "infeasible", "failed")


class Supervisor:
    """Runs one work order. `should_leave` tells whether the worker is shutting down."""

    def __init__(
        self,
        order: WorkOrder,
        attempts: Attempts,
        settings: Settings,
        should_leave: Callable[[], bool],
    ) -> None:
        self._order = order
        self._attempts = attempts
        self._settings = settings
        self._should_leave = should_leave
        self._progress = Progress(spent_ms=order.spent_ms)
        self._best: float | None = order.best_objective
        self._bound: float | None = order.lower_bound
        self._result: dict[str, Any] | None = None
        self._crash: Crashed | None = None
        self._leaving = False
        self._lost = False
        self._stop_by: float | None = None
        self._started = time.monotonic()
        self._last_renewal = self._started

    def run(self) -> None:
        """Solve, and write how it ended unless somebody else has the solve by then."""
        order = {
            "spec": self._order.spec,
            "start": self._order.start,
            "time_left_s": self._order.time_left_s,
        }
        try:
            child = SolverChild(self._settings.solver_command, order)
        except OSError as error:
            self._write_ending(Crashed(f"The solver process cannot be started: {error}"))
            return
        try:
            overran = self._follow(child)
            exit_code, errors = child.exit_code, child.stderr_tail
        finally:
            child.close()
        if self._lost:
            logger.warning("lost the lease of solve %s", self._order.fence.solve_id)
            return
        self._write_ending(self._ending(overran, exit_code, errors))

    def _follow(self, child: SolverChild) -> bool:
        """Until the child is over (False) or has to be killed (True)."""
        kill_at = self._started + self._order.time_left_s + self._settings.overtime_s
        while child.exit_code is None:
            for event in child.events(TICK_S):
                self._take(event)
            self._keep_lease(child)
            if self._lost:
                return False
            if self._should_leave() and not self._leaving:
                self._leaving = True
                self._stop(child, self._settings.stop_grace_s)
            now = time.monotonic()
            if now >= kill_at or (self._stop_by is not None and now >= self._stop_by):
                return True
        for event in child.remaining_events():
            self._take(event)
        return False

    def _stop(self, child: SolverChild, grace_s: float) -> None:
        child.interrupt()
        deadline = time.monotonic() + grace_s
        self._stop_by = deadline if self._stop_by is None else min(self._stop_by, deadline)

    def _take(self, event: Mapping[str, Any]) -> None:
        progress = self._progress
        match event["event"]:
            case "phase":
                progress.phase = event["name"]
            case "log":
                progress.log_lines.append(event["line"])
                del progress.log_lines[:-MAX_PENDING_LINES]
            case "bound":
                if self._bound is None or event["value"] > self._bound:
                    self._bound = progress.lower_bound = event["value"]
                    progress.bound_name = event["name"]
            case "incumbent":
                if self._best is None or event["objective"] < self._best:
                    self._best = progress.objective = event["objective"]
                    progress.incumbent = event["document"]
            case "result":
                self._result = event["result"]
            case "crash":
                self._crash = Crashed(event["message"], event["log_tail"])

    def _keep_lease(self, child: SolverChild) -> None:
        since_s = time.monotonic() - self._last_renewal
        has_news = self._progress.is_news and since_s >= NEWS_INTERVAL_S
        if not has_news and since_s < self._settings.heartbeat_s:
            return
        self._last_renewal = time.monotonic()
        try:
            standing = self._attempts.renew(self._order.fence, self._news())
        except (OperationalError, InterfaceError) as error:
            # Not knowing is not having lost: the fence decides once the database is back.
            logger.warning("cannot renew the lease: %s", error)
            return
        self._progress = Progress()
        self._lost = standing is Standing.LOST
        if standing is Standing.STOP and self._stop_by is None:
            self._stop(child, self._settings.overtime_s)

    def _news(self) -> Progress:
        elapsed_ms = round((time.monotonic() - self._started) * 1000)
        self._progress.spent_ms = self._order.spent_ms + elapsed_ms
        return self._progress

    def _ending(self, overran: bool, exit_code: int | None, errors: list[str]) -> Ending:
        if self._result is not None:
            answer = Answered(_checked(self._result))
            return GivenBack() if self._leaving and not _is_final(answer.result) else answer
        if self._leaving or exit_code == -signal.SIGTERM:
            # Nobody in the service sends SIGTERM to a solver: the machine is going down.
            return GivenBack()
        if overran:
            return Overran()
        return self._crash or Crashed(_death(exit_code), errors)

    def _write_ending(self, ending: Ending) -> None:
        """Try until the database takes it, but not for ever: the lapsed lease tells the rest."""
        patience_s = self._settings.stop_grace_s / 2 if self._leaving else LAST_WRITE_S
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self._attempts.end(self._order.fence, ending, self._news())
                return
            except (OperationalError, InterfaceError) as error:
                logger.warning("cannot store the end of the attempt: %s", error)
                if time.monotonic() >= deadline:
                    return
                time.sleep(TICK_S)


def _is_final(result: Mapping[str, Any]) -> bool:
    """Whether more time could not change this result."""
    return result["state"] == "infeasible" or bool(result.get("proven_optimal"))


def _checked(result: Any) -> dict[str, Any]:
    if isinstance(result, dict) and result.get("state") in RESULT_STATES:
        needed = ("code", "detail") if result["state"] == "failed" else ("document",)
        if all(name in result for name in needed):
            return result
    return {
        "state": "failed",
        "code": "internal_error",
        "detail": "The planner's answer has not the form of an answer.",
    }


def _death(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = " (out of memory?)" if exit_code == -signal.SIGKILL else ""
        return f"The solver process was killed by {name}{hint}."
    return f"The solver process ended with exit code {exit_code} and without an answer."
