"""A job of the local planner: a solve in a child process, watched by a thread of this one."""

from __future__ import annotations

import math
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from app.services.kept_plan import result_of_incumbent
from client.errors import ApiError, NoPlan
from client.library.requests import TERMINAL_STATES, Document
from workers.solver_child import SolverChild

TICK_S = 0.1
CANCEL_GRACE_S = 3.0
"""How long a solver that was asked to stop may take to answer with its best."""
OVERRUN_S = 30.0
"""A solver this long past its time limit is killed. It includes its start."""
START_PATIENCE_S = 120.0
MOST_STEPS, MOST_LINES = 2000, 5000
BESTS = {
    "pipeline": ("best_makespan_ns", "lower_bound_ns"),
    "sharding": ("best_objective_bytes", "lower_bound_bytes"),
    "training": ("best_step_time_ns", "lower_bound_ns"),
}
NO_BESTS: Mapping[str, int | None] = dict.fromkeys(
    name for names in BESTS.values() for name in names
)


@dataclass(frozen=True)
class Order:
    """What is to be solved, and what the client says about the job."""

    kind: str
    spec: Document
    engine: str
    time_limit_s: float
    name: str | None
    tags: tuple[str, ...]
    priority: int
    request: Document


class LocalJob:
    """One solve. `changed` is notified whenever there is news of any job."""

    def __init__(self, order: Order, changed: threading.Condition) -> None:
        self.id = str(uuid.uuid4())
        self.order = order
        self.state = "queued"
        self.version = 0
        self.log: deque[str] = deque(maxlen=MOST_LINES)
        self.steps: deque[Document] = deque(maxlen=MOST_STEPS)
        self._changed = changed
        self._phase: str | None = None
        self._best: float | None = None
        self._bound: float | None = None
        self._bound_name: str | None = None
        self._is_proven = False
        self._incumbent: Document | None = None
        self._ending: Mapping[str, Any] = {}
        self._result: Document | None = None
        self._error: NoPlan | None = None
        self._stop = threading.Event()
        self._created = self._began = self._ended = time.time()
        self._note()

    @property
    def is_over(self) -> bool:
        """Whether it will not change any more."""
        return self.state in TERMINAL_STATES

    @property
    def best(self) -> int | None:
        """The objective of the best plan so far, rounded up."""
        return None if self._best is None else math.ceil(self._best)

    @property
    def bound(self) -> int | None:
        """What no plan can beat, rounded down."""
        return None if self._bound is None else math.floor(self._bound)

    @property
    def gap(self) -> float | None:
        """(best - bound) / best; None until both are known."""
        if self.best is None or self.bound is None:
            return None
        if self._is_proven or not self.best:
            return 0.0
        return round((self.best - self.bound) / self.best, 6)

    def view(self) -> Document:
        """The job as a service shows it, without what is about workers."""
        is_begun = self.state != "queued"
        return {
            "id": self.id,
            "kind": self.order.kind,
            "name": self.order.name,
            "tags": list(self.order.tags),
            "priority": self.order.priority,
            "state": self.state,
            "cancel_requested": self._stop.is_set() and not self.is_over,
            "cache": "miss",
            "engine": self.order.engine,
            "queue_position": None,
            "phase": self._phase,
            "time_limit_s": self.order.time_limit_s,
            "spent_s": self._spent_s(),
            **self._bests(),
            "gap": self.gap,
            "created_at": _instant(self._created),
            "started_at": _instant(self._began) if is_begun else None,
            "finished_at": _instant(self._ended) if self.is_over else None,
        }

    def result(self) -> Document:
        """The answer. Raises what a service answers with where there is none."""
        if not self.is_over:
            detail = f"The job is {self.state}; ask again later."
            raise ApiError(409, "Not over yet", detail, "not_over")
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def cancel(self) -> None:
        """Stop, and keep the best plan."""
        with self._changed:
            self._stop.set()
            if self.state == "queued":
                self._end("cancelled", error=_no_plan())

    def run(self, orders: socket.socket, threads: int) -> None:
        """Solve; returns when the job is over."""
        with self._changed:
            if self.is_over:
                return
            self.state, self._began = "running", time.time()
            self._tell()
        try:
            child = self._solve(orders, threads)
        except OSError as error:
            detail = f"The solver process cannot be started: {error}"
            self._fail("solver_crashed", detail)
        except Exception as error:
            # Whoever waits for the job has to be told, whatever it is.
            self._fail("internal_error", f"{type(error).__name__}: {error}")
        else:
            with self._changed:
                self._settle(child)

    def _solve(self, orders: socket.socket, threads: int) -> SolverChild:
        """The solver process, which has ended."""
        order = {
            "spec": self.order.spec,
            "start": None,
            "time_left_s": self.order.time_limit_s,
            "threads": threads,
        }
        child = SolverChild(orders, order)
        try:
            self._follow(child)
        finally:
            child.close()
        return child

    def _fail(self, code: str, detail: str) -> None:
        with self._changed:
            self._end("failed", error=_failed(code, detail))

    def _follow(self, child: SolverChild) -> None:
        """Until the child is over or has to be killed."""
        begun = time.monotonic()
        kill_at = begun + START_PATIENCE_S + self.order.time_limit_s + OVERRUN_S
        is_running = is_stopping = False
        while not child.is_over and time.monotonic() < kill_at:
            for event in child.events(TICK_S):
                self._take(event)
            now = time.monotonic()
            if child.pid is not None and not is_running:
                is_running, kill_at = True, now + self.order.time_limit_s + OVERRUN_S
            if self._stop.is_set() and not is_stopping:
                is_stopping, kill_at = True, now + CANCEL_GRACE_S
                child.interrupt()
        for event in child.remaining_events():
            self._take(event)

    def _take(self, event: Mapping[str, Any]) -> None:
        with self._changed:
            match event["event"]:
                case "phase":
                    self._phase = event["name"]
                case "log":
                    self.log.append(event["line"])
                    return
                case "bound" if self._bound is None or event["value"] > self._bound:
                    self._bound, self._bound_name = event["value"], event["name"]
                case "incumbent" if self._best is None or event["objective"] < self._best:
                    self._best, self._incumbent = event["objective"], event["document"]
                case "result":
                    self._ending = event["result"]
                    return
                case "crash":
                    self._ending = {
                        "state": "failed",
                        "code": "solver_crashed",
                        "detail": event["message"],
                    }
                    return
                case _:
                    return
            self._tell()

    def _settle(self, child: SolverChild) -> None:
        """What came of it, as a service decides it (`app.services.transitions`)."""
        ending = self._ending
        document = ending.get("document")
        if document is not None:
            self._best = ending.get("objective", self._best)
            self._bound = ending.get("lower_bound", self._bound)
            self._is_proven = bool(ending.get("proven_optimal", False))
        if self._stop.is_set():
            kept = document or self._kept("cancelled")
            self._end("cancelled", kept, None if kept else _no_plan())
        elif document is not None:
            self._end(ending["state"], document)
        elif ending:
            self._end("failed", error=_failed(ending["code"], ending["detail"]))
        elif child.exit_code is None and child.refused is None and not child.is_lost:
            kept = self._kept("time limit")
            detail = "The solver did not stop at its time limit and had found no plan."
            error = None if kept else _failed("no_plan_within_limit", detail)
            self._end("succeeded" if kept else "failed", kept, error)
        else:
            said = child.refused or "\n".join(child.stderr_tail[-3:]) or "it said nothing"
            detail = f"The solver process ended without an answer: {said}"
            self._end("failed", error=_failed("solver_crashed", detail))

    def _kept(self, reason: str) -> Document | None:
        if self._incumbent is None or self.best is None:
            return None
        document = result_of_incumbent(
            self.order.spec,
            self._incumbent,
            objective=self.best,
            lower_bound=self.bound,
            bound_name=self._bound_name,
            reason=reason,
            started_from=None,
        )
        self._is_proven = bool(document["certificate"]["proven_optimal"])
        return document

    def _end(
        self, state: str, document: Document | None = None, error: NoPlan | None = None
    ) -> None:
        self.state, self._phase, self._ended = state, None, time.time()
        self._error = error
        if document is not None:
            waited_s = round(self._began - self._created, 3)
            own = {"queue_seconds": waited_s, "attempts": 1, "worker": "local"}
            self._result = {**document, "provenance": {**document.get("provenance", {}), **own}}
        self._tell()

    def _tell(self) -> None:
        self._note()
        self.version += 1
        self._changed.notify_all()

    def _note(self) -> None:
        """A step, as a service keeps it."""
        self.steps.append(
            {
                "seq": self.version,
                "at": _instant(time.time()),
                "state": self.state,
                "attempt": 1,
                "phase": self._phase,
                "spent_s": self._spent_s(),
                **self._bests(),
                "gap": self.gap,
                "detail": None,
            }
        )

    def _bests(self) -> dict[str, int | None]:
        best, bound = BESTS[self.order.kind]
        return {**NO_BESTS, best: self.best, bound: self.bound}

    def _spent_s(self) -> float:
        if self.state == "queued":
            return 0.0
        return round((self._ended if self.is_over else time.time()) - self._began, 3)


def _failed(code: str, detail: str) -> NoPlan:
    return NoPlan(410, "There is no result", detail, code)


def _no_plan() -> NoPlan:
    detail = "The job was cancelled, and no plan was kept for it."
    return NoPlan(404, "There is no plan", detail, "no_plan")


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
