"""Improving a schedule with CP-SAT, in a process of its own.

OR-Tools and python-mip each bring their own build of the COIN-OR libraries under the same names
(`libOsi.so.0`, `libCgl.so.0`), and whichever is loaded second fails. So nothing here imports
OR-Tools: the search runs in a child process, which also keeps a crash of the solver away.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import IO, Any

from planner.errors import OrderError, SolverCrash
from planner.pipeline.cp_sat.messages import (
    CpSatOutcome,
    CpSatSettings,
    Status,
    Task,
    read_outcome,
    read_schedule,
    to_line,
)
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.process_guard import die_with_parent
from planner.progress import Report

CHILD = ("-m", "planner.pipeline.cp_sat.child")
POLL_S = 0.05
STOP_GRACE_S = 0.7
"""How long the child may take to end after a stop request."""
OVERTIME_S = 2.0
"""How long it may take beyond its time limit, which it counts from when it has loaded OR-Tools."""


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
    start and the problem is infeasible, `SolverCrash` if the child process cannot be started or
    dies by itself.
    """
    try:
        child = subprocess.Popen(
            [sys.executable, *CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )
    except OSError as error:
        raise SolverCrash(f"CP-SAT cannot be started: {error}", []) from error
    with child:
        try:
            task = Task(problem, start, settings)
            return _Follower(child, task, report, on_incumbent).follow(should_stop)
        finally:
            child.kill()


class _Follower:
    """Follows a child process and hands on what it says."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        task: Task,
        report: Report,
        on_incumbent: Callable[[Schedule], None] | None,
    ) -> None:
        self._child = child
        self._task = task
        self._report = report
        self._on_incumbent = on_incumbent
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._has_ended = False
        self._best: Schedule | None = None
        self._bound_ns: int | None = None
        self._outcome: CpSatOutcome | None = None

    def follow(self, should_stop: Callable[[], bool]) -> CpSatOutcome:
        """Hand over the task, and return the child's outcome or what is known without it."""
        assert self._child.stdout is not None
        reader = threading.Thread(target=_read, args=(self._child.stdout, self._messages))
        reader.start()
        try:
            self._hand_over()
            status = self._wait(should_stop)
        finally:
            self._child.kill()
            reader.join()
        # What the child has said counts, even if it was not heard before the child was killed.
        while self._outcome is None and not self._has_ended:
            self._take(0)
        return self._outcome or CpSatOutcome(self._best, self._bound_ns, status, 0, 0, [])

    def _hand_over(self) -> None:
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(to_line(self._task.to_document()))
            self._child.stdin.flush()
        except BrokenPipeError:
            # The child is gone, as the end of its messages tells; what is left for it is dropped.
            with contextlib.suppress(BrokenPipeError):
                self._child.stdin.close()

    def _wait(self, should_stop: Callable[[], bool]) -> Status:
        """Until there is an outcome, or the time is up after which the child is not waited for."""
        assert self._child.stdin is not None
        status: Status = "time_limit"
        ends = time.monotonic() + self._task.settings.time_limit_s + OVERTIME_S
        while self._outcome is None and time.monotonic() < ends:
            self._take(POLL_S)
            if self._has_ended and status != "stopped":
                raise SolverCrash("the process of CP-SAT ended without an outcome", [])
            if self._has_ended:
                break
            if status != "stopped" and should_stop():
                status = "stopped"
                self._child.stdin.close()
                ends = time.monotonic() + STOP_GRACE_S
        return status

    def _take(self, timeout_s: float) -> None:
        """Handle the child's next message, if one comes in time."""
        try:
            message = self._messages.get(timeout=timeout_s)
        except queue.Empty:
            return
        if message is None:
            self._has_ended = True
        else:
            self._handle(**message)

    def _handle(self, kind: str, value: Any) -> None:
        if kind == "log":
            self._report.log(value)
        elif kind == "bound":
            name, bound_ns = value
            self._bound_ns = bound_ns
            self._report.bound(name, bound_ns)
        elif kind == "incumbent":
            self._best = read_schedule(self._task.problem, value)
            if self._on_incumbent is not None:
                self._on_incumbent(self._best)
        elif kind == "infeasible":
            raise OrderError(value)
        elif kind == "outcome":
            self._outcome = read_outcome(self._task.problem, value)


def _read(stream: IO[bytes], messages: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    """Put every message of the child into a queue, and None at its end."""
    try:
        for line in stream:
            messages.put(json.loads(line))
    except (ValueError, OSError):
        # A message that was cut short when the child was killed, or a pipe that is closed.
        pass
    messages.put(None)
