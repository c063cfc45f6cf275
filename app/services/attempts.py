"""What a worker does with a solve, each step one transaction: claim, renew, end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sqlalchemy.orm import Session

from app.database import Database, clock_ms
from app.models import Solve, SolveState, rounded_down, rounded_up
from app.observability import metrics
from app.repositories.event_log import EventLog
from app.repositories.leases import Fence, LeaseRepository
from app.repositories.logs import LogRepository
from app.repositories.queue import QueueRepository
from app.repositories.running_limits import RunningLimits
from app.services.transitions import (
    LOG_TAIL_LINES,
    PLAN_COLUMNS,
    Ending,
    end_attempt,
    ending_name,
    why_requeued,
)
from app.settings import Settings
from planner.pipeline.names import StartKind

SHORTEST_ATTEMPT_S = 3.0
MAX_NAME_CHARACTERS = 64


class Standing(Enum):
    """What the row says to the worker that renews its lease."""

    GO_ON = "go on"
    STOP = "stop and keep the best"
    LOST = "somebody else has the solve"


@dataclass(frozen=True)
class WorkOrder:
    """A claimed solve. `start` is what to start from, `time_left_s` what is left.

    A start is a plan as the solver reported it, with its `origin`: whose plan it is.
    """

    fence: Fence
    spec: dict[str, Any]
    start: dict[str, Any] | None
    time_left_s: float
    spent_ms: int
    best_objective: int | None
    lower_bound: int | None


@dataclass
class Progress:
    """News from a solver that are not stored yet, and the solver time spent in all attempts.

    Objective and bound are in the unit of the solve's kind (ns or bytes).
    """

    spent_ms: int = 0
    phase: str | None = None
    lower_bound: float | None = None
    bound_name: str | None = None
    incumbent: dict[str, Any] | None = None
    objective: float | None = None
    log_lines: list[str] = field(default_factory=list)
    is_step: bool = False
    """Whether the row, once this is stored, is worth an event."""

    @property
    def improved(self) -> bool:
        """Whether a plan or a bound is better than what is stored."""
        return self.incumbent is not None or self.lower_bound is not None

    @property
    def is_news(self) -> bool:
        """Whether there is anything to store but time."""
        return self.improved or self.phase is not None or bool(self.log_lines)

    def columns(self) -> dict[str, Any]:
        """The columns of the solve that change."""
        values: dict[str, Any] = {"spent_ms": self.spent_ms}
        if self.phase is not None:
            values["phase"] = self.phase[:MAX_NAME_CHARACTERS]
        if self.lower_bound is not None:
            values["lower_bound"] = rounded_down(self.lower_bound)
            values["bound_name"] = self.bound_name and self.bound_name[:MAX_NAME_CHARACTERS]
        if self.incumbent is not None:
            assert self.objective is not None
            values["incumbent"] = json.dumps(self.incumbent, separators=(",", ":"))
            values["best_objective"] = rounded_up(self.objective)
        if self.improved:
            values["progress_at"] = clock_ms()
        return values


class Attempts:
    """The worker's side of the rules."""

    def __init__(self, database: Database, settings: Settings, worker: str, version: str) -> None:
        self._database = database
        self._settings = settings
        self._worker = worker
        self._version = version

    def claim(self, solve_id: str) -> WorkOrder | None:
        """Take a queued solve; None if there is nothing to take, or not for now."""
        with self._database.writing() as session:
            if not self._may_run(session, solve_id):
                QueueRepository(session).mark_unsent([solve_id])
                return None
            fence = LeaseRepository(session).claim(
                solve_id,
                worker=self._worker,
                lease_s=self._settings.lease_s,
                solver_version=self._version,
            )
            if fence is None:
                return None
            solve = LeaseRepository(session).lock(fence, *PLAN_COLUMNS)
            assert solve is not None
            EventLog(session).change(solve_id)
            order = _work_order(fence, solve)
        if fence.attempt == 1:
            metrics.solve_started(solve)
        return order

    def _may_run(self, session: Session, solve_id: str) -> bool:
        """Whether it is for this worker, and its tenant has room for one more."""
        place = QueueRepository(session).place(solve_id)
        if place is None:
            return True
        tenant, queue = place
        if queue not in self._settings.worker_queues:
            return False
        return RunningLimits(session, self._settings).has_room(tenant, queue)

    def renew(self, fence: Fence, progress: Progress) -> Standing:
        """Renew the lease and store what is new."""
        with self._database.writing() as session:
            stop = LeaseRepository(session).renew(fence, self._settings.lease_s, progress.columns())
            if stop is None:
                return Standing.LOST
            self._append_log(session, fence, progress)
            if progress.is_step:
                EventLog(session).step(fence.solve_id)
            return Standing.STOP if stop else Standing.GO_ON

    def standing(self, fence: Fence) -> Standing:
        """What the row says by now; a look is far cheaper than renewing the lease."""
        with self._database.reading() as session:
            stop = LeaseRepository(session).stop_requested(fence)
        if stop is None:
            return Standing.LOST
        return Standing.STOP if stop else Standing.GO_ON

    def end(self, fence: Fence, ending: Ending, progress: Progress) -> Standing:
        """End the attempt. Nothing is written if the lease was lost."""
        with self._database.writing() as session:
            solve = LeaseRepository(session).lock(fence, *PLAN_COLUMNS)
            if solve is None:
                return Standing.LOST
            for name, value in progress.columns().items():
                setattr(solve, name, value)
            self._append_log(session, fence, progress)
            close(session, solve, ending, self._settings)
        metrics.attempt_ended(solve, ending_name(ending))
        return Standing.GO_ON

    def refuse(self, solve_id: str) -> None:
        """This worker is shutting down: let the id be sent to another one."""
        with self._database.writing() as session:
            QueueRepository(session).mark_unsent([solve_id])

    def _append_log(self, session: Session, fence: Fence, progress: Progress) -> None:
        log = LogRepository(session)
        log.append(fence.solve_id, progress.log_lines, self._settings.max_log_lines)


def close(session: Session, solve: Solve, ending: Ending, settings: Settings) -> None:
    """Apply an ending to a locked solve and write it."""
    end_attempt(
        solve,
        ending,
        max_crashes=settings.max_crashes,
        max_losses=settings.max_losses,
        log_tail=LogRepository(session).tail(solve.id, LOG_TAIL_LINES),
    )
    detail = why_requeued(ending) if solve.state == SolveState.QUEUED else None
    EventLog(session).change(solve.id, detail)


def _work_order(fence: Fence, solve: Solve) -> WorkOrder:
    left_s = (solve.time_limit_ms - solve.spent_ms) / 1000
    if solve.spent_ms:
        # Whatever was spent, an attempt gets the time to re-time and verify what it starts from.
        left_s = max(left_s, SHORTEST_ATTEMPT_S)
    return WorkOrder(
        fence=fence,
        spec=json.loads(solve.spec),
        start=_start(solve),
        time_left_s=left_s,
        spent_ms=solve.spent_ms,
        best_objective=solve.best_objective,
        lower_bound=solve.lower_bound,
    )


def _start(solve: Solve) -> dict[str, Any] | None:
    """The best plan of the solve's earlier attempts, or else that of another solve. The plan that a
    training run has is started from each time, since the answer is compared with it."""
    given = None if solve.started_from is None else json.loads(solve.started_from)
    is_running = given is not None and given.get("origin", {}).get("kind") == StartKind.RUNNING_PLAN
    if solve.incumbent is not None and not is_running:
        return {**json.loads(solve.incumbent), "origin": {"kind": StartKind.EARLIER_ATTEMPT}}
    return given
