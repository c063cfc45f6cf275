"""Improving a schedule with CP-SAT, in a process of its own.

OR-Tools and python-mip each bring their own build of the COIN-OR libraries under the same names
(`libOsi.so.0`, `libCgl.so.0`), and whichever is loaded second fails. So nothing here imports
OR-Tools: the search runs in a child process, which also keeps a crash of the solver away.
"""

from __future__ import annotations

import pickle
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Literal, Protocol

from planner.errors import OrderError, SolverCrash
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule

Status = Literal["optimal", "gap", "time_limit", "stopped"]

POLL_S = 0.05
GRACE_S = 2.0
"""How long the child may take to end after a stop request or its time limit."""


class Report(Protocol):
    """Where live log lines and bounds go."""

    def log(self, line: str) -> None: ...

    def bound(self, name: str, value_ns: int) -> None: ...


@dataclass(frozen=True)
class CpSatSettings:
    """`mip_gap` is relative. `lower_bound_ns` is already proven on the problem's objective."""

    time_limit_s: float
    mip_gap: float
    threads: int
    seed: int
    lower_bound_ns: int


@dataclass(frozen=True)
class CpSatOutcome:
    """`schedule` is better than the start, or None. `lower_bound_ns` bounds the problem's own
    objective; None if nothing was proven beyond what was known. `rounds` has one entry per run
    of the solver; the counts are those of the largest model."""

    schedule: Schedule | None
    lower_bound_ns: int | None
    status: Status
    variables: int
    constraints: int
    rounds: list[dict[str, Any]]


def improve_with_cp_sat(
    problem: PipelineProblem,
    start: Schedule | None,
    settings: CpSatSettings,
    report: Report,
    should_stop: Callable[[], bool],
    on_incumbent: Callable[[Schedule], None] | None = None,
) -> CpSatOutcome:
    """Improve `start` within the time limit, model building included.

    Without a start it begins with one micro-batch at a time. `on_incumbent` gets every better
    schedule. All callbacks are called from the calling thread. Raises `OrderError` if there is no
    start and the problem is infeasible, `SolverCrash` if the child process dies by itself.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "planner.pipeline.cp_sat.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with child:
        try:
            return _Follower(child, report, on_incumbent).follow(
                (problem, start, settings), settings.time_limit_s, should_stop
            )
        finally:
            child.kill()


class _Follower:
    """Follows a child process and hands on what it says."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        report: Report,
        on_incumbent: Callable[[Schedule], None] | None,
    ) -> None:
        self._child = child
        self._report = report
        self._on_incumbent = on_incumbent
        self._messages: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        self._best: Schedule | None = None
        self._bound_ns: int | None = None

    def follow(
        self, task: object, time_limit_s: float, should_stop: Callable[[], bool]
    ) -> CpSatOutcome:
        """Hand over the task, and return the child's outcome or what is known without it."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        reader = threading.Thread(target=_read, args=(self._child.stdout, self._messages))
        reader.start()
        pickle.dump(task, self._child.stdin)
        self._child.stdin.flush()
        ends = time.monotonic() + time_limit_s + GRACE_S
        stopped = False
        try:
            while time.monotonic() < ends:
                try:
                    message = self._messages.get(timeout=POLL_S)
                except queue.Empty:
                    message = ("nothing", None)
                if message is None:
                    raise SolverCrash("the process of CP-SAT ended without an outcome", [])
                outcome = self._handle(*message)
                if outcome is not None:
                    return outcome
                if not stopped and should_stop():
                    stopped = True
                    self._child.stdin.close()
                    ends = time.monotonic() + GRACE_S
        finally:
            self._child.kill()
            reader.join()
        status: Status = "stopped" if stopped else "time_limit"
        return CpSatOutcome(self._best, self._bound_ns, status, 0, 0, [])

    def _handle(self, kind: str, value: Any) -> CpSatOutcome | None:
        if kind == "log":
            self._report.log(value)
        elif kind == "bound":
            self._bound_ns = value[1]
            self._report.bound(*value)
        elif kind == "incumbent":
            self._best = value
            if self._on_incumbent is not None:
                self._on_incumbent(value)
        elif kind == "infeasible":
            raise OrderError(value)
        elif kind == "outcome":
            outcome: CpSatOutcome = value
            return outcome
        return None


def _read(stream: IO[bytes], messages: queue.SimpleQueue[tuple[str, Any] | None]) -> None:
    """Put every message of the child into a queue, and None at its end."""
    try:
        while True:
            messages.put(pickle.load(stream))
    except (EOFError, pickle.UnpicklingError, ValueError, OSError):
        messages.put(None)
