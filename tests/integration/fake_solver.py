"""The real solver server around a fake planner, which does what the spec's `script` says.

Run with a marker as its argument, by which a test finds its processes again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from planner.cores import allowed_threads
from planner.errors import SolverCrash
from tests.integration import fakes
from workers import solver_process, solver_server

# As the planner starts an external solver: tied to the life of its parent.
GRANDCHILD = """
import sys, time
from planner.process_guard import die_with_parent
die_with_parent(int(sys.argv[1]))
time.sleep(600)
"""

ANSWERS = {
    "pipeline": fakes.succeeded,
    "sharding": fakes.sharded,
    "training": fakes.trained,
}
FINDS: dict[str, dict[str, Any]] = {
    "sharding": fakes.SHARDING_START,
    "training": fakes.TRAINING_START,
}


def run(
    spec: dict[str, Any],
    reporter: solver_process.EventWriter,
    should_stop: Callable[[], bool],
    start: dict[str, Any] | None,
    time_left_s: float,
) -> dict[str, Any]:
    script = spec["script"]
    what = script if isinstance(script, str) else script["do"]
    reporter.phase(what)
    reporter.log(f"start {'none' if start is None else start.get('placement', 'known')}")
    reporter.log(f"time left {time_left_s:.1f}")
    match what:
        case "answer":
            answer = ANSWERS[spec["kind"]]()
            given = {} if isinstance(script, str) else {"objective": script["objective"]}
            return {**answer, **given}
        case "find":
            reporter.bound("fake", 9.75)
            reporter.incumbent(FINDS[spec["kind"]], 10.5, "fake")
            time.sleep(600)
        case "threads":
            reporter.log(f"threads {allowed_threads(64)} of 64")
            return fakes.succeeded()
        case "infeasible":
            return fakes.infeasible()
        case "no plan":
            return {"state": "failed", "code": "no_plan_within_limit", "detail": "Nothing found."}
        case "nonsense":
            return {"state": "unheard of"}
        case "raise":
            raise RuntimeError("a fault in the planner")
        case "solver crash":
            raise SolverCrash("cbc died", ["its last words"])
        case "segfault":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "crash once":
            # The first attempt leaves an incumbent behind, from which the second one starts.
            if start is None:
                reporter.incumbent(fakes.START, 9, "fake")
                time.sleep(0.2)
                os.kill(os.getpid(), signal.SIGSEGV)
            return fakes.succeeded()
        case "hang":
            reporter.bound("fake", 7)
            reporter.incumbent(fakes.START, 7, "fake")
            time.sleep(600)
        case "eat":
            return eat(script, reporter, should_stop)
        case "work":
            return work(script, reporter, should_stop)
    raise AssertionError(what)


def work(
    script: dict[str, Any], reporter: solver_process.EventWriter, should_stop: Callable[[], bool]
) -> dict[str, Any]:
    """Find a plan, then keep a grandchild busy for `seconds` or until asked to stop."""
    print("libraries print")
    reporter.bound("fake", 5)
    reporter.incumbent(fakes.START, 7, "fake")
    command = [sys.executable, "-c", GRANDCHILD, str(os.getpid()), *sys.argv[1:]]
    grandchild = subprocess.Popen(command)
    until = time.monotonic() + script["seconds"]
    while time.monotonic() < until and not should_stop():
        time.sleep(0.02)
    grandchild.kill()
    grandchild.wait()
    stopped = time.monotonic() < until
    return fakes.succeeded(7, 5 if stopped else 7, proven_optimal=not stopped)


def eat(
    script: dict[str, Any], reporter: solver_process.EventWriter, should_stop: Callable[[], bool]
) -> dict[str, Any]:
    """Hold `mib` more, beside a child that holds as much, and stop only if it is to `listen`."""
    if script["plan"]:
        reporter.bound("fake", 5)
        reporter.incumbent(fakes.START, 7, "fake")
    eater = f"{GRANDCHILD.rpartition('time.sleep')[0]}held = b'x' * ({script['mib']} << 20)\n"
    command = [sys.executable, "-c", f"{eater}time.sleep(600)", str(os.getpid()), *sys.argv[1:]]
    child = subprocess.Popen(command)
    held = b"x" * (script["mib"] << 20)
    while not (script["listen"] and should_stop()):
        time.sleep(0.02)
    child.kill()
    child.wait()
    assert held
    if script["plan"]:
        return fakes.succeeded(7, 5, proven_optimal=False)
    return {"state": "failed", "code": "no_plan_within_limit", "detail": "Nothing found."}


if __name__ == "__main__":
    solver_process.solver_of = lambda kind: run
    solver_server.main()
