"""One attempt at a solve: order a solver process, keep the lease, store what it finds.

The supervisor decides when the attempt ends: with the solver's answer or death, when the last
job was cancelled, when the worker shuts down, when the lease was lost, when the solver holds too
much memory, or when it is still there after its time limit.
"""

from __future__ import annotations

import logging
import signal
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from app.database import UNREACHABLE
from app.observability import metrics
from app.services.attempts import Attempts, Progress, Standing, WorkOrder
from app.services.transitions import (
    Answered,
    Crashed,
    Ending,
    GivenBack,
    Lost,
    OutOfMemory,
    Overran,
    is_final,
)
from app.settings import Settings
from planner.process_guard import signal_in_words
from workers.capacity import Capacity
from workers.memory_watch import MemoryWatch
from workers.solver_child import SolverChild
from workers.steps import Steps

logger = logging.getLogger(__name__)
TICK_S = 0.1
# A cancel is heard within the sum of the two, and the solver has the grace period to answer.
LISTEN_S = 0.25
CANCEL_GRACE_S = 0.5
MEMORY_GRACE_S = 2.0
NEWS_INTERVAL_S = 1.0
LAST_WRITE_S = 30.0
# Longer than a solver server takes to start on a machine that has much to do.
START_PATIENCE_S = 60.0
MAX_PENDING_LINES = 500
RESULT_STATES = ("succeeded", "infeasible", "failed")


class Supervisor:
    """Runs one work order. `should_leave` tells whether the worker is shutting down, `orders` is
    where its solver server takes orders."""

    def __init__(
        self,
        order: WorkOrder,
        attempts: Attempts,
        settings: Settings,
        should_leave: Callable[[], bool],
        orders: socket.socket,
        capacity: Capacity,
    ) -> None:
        self._order = order
        self._attempts = attempts
        self._settings = settings
        self._should_leave = should_leave
        self._orders = orders
        self._capacity = capacity
        self._memory = MemoryWatch(capacity.memory_bytes)
        self._progress = Progress(spent_ms=order.spent_ms)
        self._steps = Steps(order.spent_ms)
        self._best: float | None = order.best_objective
        self._bound: float | None = order.lower_bound
        self._result: dict[str, Any] | None = None
        self._crash: Crashed | None = None
        self._leaving = False
        self._lost = False
        self._stop_by: float | None = None
        self._claimed = self._last_renewal = self._last_look = time.monotonic()
        self._started: float | None = None

    def run(self) -> None:
        """Solve, and write how it ended unless somebody else has the solve by then."""
        order = {
            "spec": self._order.spec,
            "start": self._order.start,
            "time_left_s": self._order.time_left_s,
            "threads": self._capacity.threads,
        }
        try:
            child = SolverChild(self._orders, order)
        except OSError as error:
            logger.error("the solver server takes no orders: %s", error)
            self._write_ending(Lost())
            return
        try:
            self._follow(child)
            ending = self._ending(child)
        finally:
            child.close()
        if self._lost:
            logger.warning("lost the lease of solve %s", self._order.fence.solve_id)
            return
        self._write_ending(ending)

    def _follow(self, child: SolverChild) -> None:
        """Until the child is over or has to be killed."""
        while not child.is_over:
            for event in child.events(TICK_S):
                self._take(event)
            if self._started is None and child.pid is not None:
                self._started = time.monotonic()
            self._keep_lease(child)
            self._watch_memory(child)
            if self._should_leave() and not self._leaving:
                self._leaving = True
                self._stop(child, self._settings.stop_grace_s)
            if self._lost or self._is_late():
                return
        for event in child.remaining_events():
            self._take(event)

    def _is_late(self) -> bool:
        now = time.monotonic()
        if self._stop_by is not None and now >= self._stop_by:
            return True
        if self._started is None:
            return now >= self._claimed + START_PATIENCE_S
        return now >= self._started + self._order.time_left_s + self._settings.overtime_s

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
        now = time.monotonic()
        since_s = now - self._last_renewal
        has_news = self._progress.is_news and since_s >= NEWS_INTERVAL_S
        is_due = has_news or since_s >= self._settings.heartbeat_s
        if not is_due and now - self._last_look < LISTEN_S:
            return
        try:
            standing = self._renew(now) if is_due else self._attempts.standing(self._order.fence)
        except UNREACHABLE as error:
            # Not knowing is not having lost: the fence decides once the database is back.
            metrics.database_failed()
            logger.warning("cannot %s the lease: %s", "renew" if is_due else "look at", error)
            return
        self._last_look = now
        self._lost = standing is Standing.LOST
        if standing is Standing.STOP and self._stop_by is None:
            self._stop(child, CANCEL_GRACE_S)

    def _renew(self, now: float) -> Standing:
        self._last_renewal = now
        progress = self._news()
        progress.is_step = self._steps.is_due(progress)
        standing = self._attempts.renew(self._order.fence, progress)
        self._progress = Progress()
        return standing

    def _watch_memory(self, child: SolverChild) -> None:
        if child.pid is None:
            return
        was_exceeded = self._memory.limit_exceeded is not None
        self._memory.look(child.pid)
        if self._memory.is_far_over:
            self._stop_by = time.monotonic()
        elif self._memory.limit_exceeded is not None and not was_exceeded:
            self._stop(child, MEMORY_GRACE_S)

    def _news(self) -> Progress:
        elapsed_s = 0.0 if self._started is None else time.monotonic() - self._started
        self._progress.spent_ms = self._order.spent_ms + round(elapsed_s * 1000)
        return self._progress

    def _ending(self, child: SolverChild) -> Ending:
        result = None if self._result is None else _checked(self._result)
        if self._memory.limit_exceeded is not None:
            return OutOfMemory(self._memory.limit_exceeded, result)
        if result is not None:
            return GivenBack() if self._leaving and not is_final(result) else Answered(result)
        if child.refused is not None:
            return Crashed(f"The solver process cannot be started: {child.refused}")
        if self._leaving or child.exit_code == -signal.SIGTERM:
            # Nobody in the service sends SIGTERM to a solver: the machine is going down.
            return GivenBack()
        if child.is_lost or self._started is None:
            return Lost()
        if child.exit_code is None:
            return Overran()
        return self._crash or Crashed(_death(child.exit_code), child.stderr_tail)

    def _write_ending(self, ending: Ending) -> None:
        """Try until the database takes it, but not for ever: the lapsed lease tells the rest."""
        patience_s = self._settings.stop_grace_s / 2 if self._leaving else LAST_WRITE_S
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self._attempts.end(self._order.fence, ending, self._news())
                return
            except UNREACHABLE as error:
                metrics.database_failed()
                logger.warning("cannot store the end of the attempt: %s", error)
                if time.monotonic() >= deadline:
                    return
                time.sleep(TICK_S)


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


def _death(exit_code: int) -> str:
    if exit_code < 0:
        hint = " (out of memory?)" if exit_code == -signal.SIGKILL else ""
        return f"The solver process was killed by {signal_in_words(-exit_code)}{hint}."
    return f"The solver process ended with exit code {exit_code} and without an answer."
