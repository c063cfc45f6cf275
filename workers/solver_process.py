"""A solver process: solves one spec. The solver server forks it.

Reads one JSON line ``{"spec", "start", "time_left_s", "threads"}`` from stdin and writes one JSON
event per line to stdout: `phase`, `log`, `bound` and `incumbent` while it works, at the end
`result` or `crash`. SIGINT asks it to stop and answer with its best. When stdin ends the
supervisor is gone, and so is everything in this process group.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, NoReturn

from planner.cores import limit_threads
from planner.errors import SolverCrash

KINDS = ("pipeline", "sharding", "training")
TRACEBACK_LINES = 20

Solver = Callable[..., dict[str, Any]]


class EventWriter:
    """Writes events as lines of JSON; also the planner's `Reporter`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def emit(self, event: str, **fields: Any) -> None:
        """One event. If nobody reads any more there is nobody to solve for."""
        line = json.dumps({"event": event, **fields}, separators=(",", ":")) + "\n"
        with self._lock:
            try:
                self._stream.write(line.encode())
                self._stream.flush()
            except BrokenPipeError:
                kill_group()

    def log(self, line: str) -> None:
        self.emit("log", line=line)

    def phase(self, name: str) -> None:
        self.emit("phase", name=name)

    def bound(self, name: str, value: float) -> None:
        self.emit("bound", name=name, value=value)

    def incumbent(self, document: dict[str, Any], objective: float, found_by: str) -> None:
        self.emit("incumbent", document=document, objective=objective, found_by=found_by)


def kill_group() -> None:
    """End this process and the solvers that it started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def load_solvers() -> None:
    """Import everything that a solve needs."""
    for kind in KINDS:
        solver_of(kind)


def solver_of(kind: str) -> Solver:
    """The planner's function for a kind of spec. Imported late: it loads the solvers."""
    if kind == "pipeline":
        from planner.pipeline.solve import run as solve_pipeline

        return solve_pipeline
    if kind == "sharding":
        from planner.sharding.solve import run as solve_sharding

        return solve_sharding
    if kind == "training":
        from planner.training.solve import run as solve_training

        return solve_training
    raise ValueError(f"there is no solver for specs of kind {kind!r}")


def solve(order: Mapping[str, Any], events: EventWriter, should_stop: Callable[[], bool]) -> None:
    """Solve the order and emit its result; whatever goes wrong becomes an event as well."""
    try:
        run = solver_of(order["spec"]["kind"])
        result = run(order["spec"], events, should_stop, order["start"], order["time_left_s"])
    except SolverCrash as crash:
        events.emit("crash", message=str(crash), log_tail=list(crash.log_tail))
    except Exception as error:
        trace = traceback.format_exc().splitlines()[-TRACEBACK_LINES:]
        detail = f"The planner failed: {type(error).__name__}: {error}"
        failed = {"state": "failed", "code": "internal_error", "detail": detail}
        events.emit("result", result={**failed, "log_tail": trace})
    else:
        events.emit("result", result=result)


def _event_stream() -> BinaryIO:
    """The real stdout; what libraries print goes to stderr instead of between the events."""
    events = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return events


def _watch(stdin: BinaryIO) -> None:
    while stdin.read(4096):
        pass
    kill_group()


def main() -> NoReturn:
    """Read the order, solve it, end. SIGINT is blocked until there is a handler for it."""
    faulthandler.enable()
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    events = EventWriter(_event_stream())
    order = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_watch, args=(sys.stdin.buffer,), daemon=True).start()
    limit_threads(order["threads"])
    solve(order, events, stop.is_set)
    # Not by way of the interpreter's end, which would wait for the thread that reads stdin.
    os._exit(0)
