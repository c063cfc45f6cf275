"""The real solver server around a stand-in for the planner that works for so many seconds.

Its argument says for how long. The answer says of which problem it is and of which run: two runs
of the same solve never write the same result.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from workers import solver_process, solver_server


def run(
    spec: dict[str, Any],
    reporter: solver_process.EventWriter,
    should_stop: Callable[[], bool],
    start: dict[str, Any] | None,
    time_left_s: float,
) -> dict[str, Any]:
    """Find a plan at once, then wait."""
    began = time.monotonic()
    seconds = float(sys.argv[1])
    problem = spec["candidates"][0]["problem"]
    schedule = one_after_the_other(problem)
    makespan_ns = schedule["makespan_ns"]
    reporter.phase("waiting")
    reporter.bound("work", makespan_ns)
    incumbent = {"placement": "as_posted", "schedule": schedule}
    reporter.incumbent(incumbent, makespan_ns, "stand-in")
    while time.monotonic() - began < min(seconds, time_left_s) and not should_stop():
        time.sleep(0.02)
    return {
        "state": "succeeded",
        "objective": makespan_ns,
        "lower_bound": makespan_ns,
        "proven_optimal": True,
        "document": {
            "problem": problem,
            "schedule": schedule,
            "comparison": [],
            "certificate": {
                "verified": True,
                "proven_optimal": True,
                "memory_safe_under_jitter": True,
            },
            **replacement(start),
            "provenance": {"engine": "stand-in", "run": f"{os.getpid()} {time.time_ns()}"},
        },
    }


def replacement(start: dict[str, Any] | None) -> dict[str, Any]:
    """What an answer says of the plan that a training run has, if the solve starts from it."""
    if start is None or start.get("origin", {}).get("kind") != "running_plan":
        return {}
    return {"replacement": {"gain": 0.1, "gain_low": 0.1, "running_fits": True}}


def one_after_the_other(problem: dict[str, Any]) -> dict[str, Any]:
    """The schedule of a problem of one stage and one micro-batch."""
    (stage,) = problem["stages"]
    forward_ns, backward_ns = stage["forward_ns"], stage["backward_input_ns"]
    end_ns = forward_ns + backward_ns
    operation = {"stage": 0, "micro_batch": 0}
    return {
        "ops": [
            {"op": "F", **operation, "start_ns": 0, "end_ns": forward_ns},
            {"op": "B", **operation, "start_ns": forward_ns, "end_ns": end_ns},
        ],
        "makespan_ns": end_ns,
        "steady_span_ns": end_ns,
        "peak_memory_bytes": [0],
        "lower_bound_ns": end_ns,
    }


if __name__ == "__main__":
    solver_process.solver_of = lambda kind: run
    solver_server.main()
