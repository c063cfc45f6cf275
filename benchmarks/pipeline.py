"""Solves the benchmark problems afresh and compares the answers with the best values known.

    python -m benchmarks.pipeline [--server URL] [--time-limit S] [--engines E,E] [--checker FILE]
                                  [NAME ...]

Every problem of `problems/` is solved by each engine in turn, in child processes or, with
`--server`, by a running service. Each answer is set beside the best value known
(`problems/best-known.json`) and the best classic schedule of its own comparison, verified once
more, and checked by an independent checker program if one is given. Without other arguments than
that writes `results/pipeline.json` and `results/pipeline.md`; exits with 1 if an answer is missing
or refused.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from benchmarks.common import BEST_KNOWN, PROBLEMS, check, is_default, parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import as_line, keep, show
from benchmarks.report import cells, columns, record_of
from benchmarks.solver_memory import SolverMemory
from benchmarks.verified import wrong_in_schedule
from client.connecting import connect
from client.errors import ApiError
from client.library.planner import Planner
from planner.pipeline.options import DEFAULT_ENGINE, Engine

THIS_MACHINE = ("127.0.0.1", "::1", "localhost")
LIMIT_S = 20.0
POLL_S = 0.5


def main() -> int:
    """Run the benchmark from the command line."""
    parser = parser_for(__doc__)
    parser.add_argument("--server", help="address of a service; without one none is needed")
    parser.add_argument("--time-limit", type=float, default=LIMIT_S, help="seconds of each solve")
    parser.add_argument("--engines", type=read_engines, default=(DEFAULT_ENGINE,))
    parser.add_argument("--checker", type=Path, help="a program that checks a result file")
    parser.add_argument("names", nargs="*", help="problems; all that there are")
    asked = parser.parse_args()
    environment = environment_now()
    names = asked.names or sorted(p.stem for p in PROBLEMS.glob("*.json") if p != BEST_KNOWN)
    best_known = json.loads(BEST_KNOWN.read_text())
    rows: list[dict[str, Any]] = []
    print(as_line(columns(asked.engines)), file=sys.stderr)
    with Planner.over(connect(asked.server)) if asked.server else Planner.local() as planner:
        for name in names:
            known = best_known.get(name, {})
            engines = {
                engine: measure(planner, name, known, engine, asked) for engine in asked.engines
            }
            row = {"name": name, "best_known_ns": known.get("makespan_ns"), "engines": engines}
            rows.append(row)
            print(as_line(cells(row)), file=sys.stderr, flush=True)
    record = record_of(rows, asked.engines, asked.time_limit, environment)
    show(record)
    if is_default(parser, asked, "checker"):
        keep("pipeline", record)
    return 0 if all(m["ok"] for row in rows for m in row["engines"].values()) else 1


def read_engines(text: str) -> tuple[str, ...]:
    """Engines from a list with commas."""
    engines = tuple(dict.fromkeys(text.split(",")))
    if unknown := set(engines) - set(get_args(Engine)):
        raise argparse.ArgumentTypeError(f"no such engine: {', '.join(sorted(unknown))}")
    return engines


def measure(
    planner: Planner,
    name: str,
    known: Mapping[str, Any],
    engine: str,
    asked: argparse.Namespace,
) -> dict[str, Any]:
    """Solve one problem afresh and describe the answer."""
    problem = json.loads((PROBLEMS / f"{name}.json").read_text())
    solver = {"engine": engine, "time_limit_s": asked.time_limit}
    memory = SolverMemory()
    is_here = not asked.server or urllib.parse.urlsplit(asked.server).hostname in THIS_MACHINE
    sample: Callable[[], None] = memory.sample if is_here else lambda: None
    started = time.monotonic()
    job = planner.pipeline_schedule(
        {"problem": problem, "solver": solver, "name": name}, fresh=True
    )
    while not job.status().is_over:
        sample()
        time.sleep(POLL_S)
    measured = {"state": job.state, "seconds": round(time.monotonic() - started, 1)}
    try:
        answer = job.document()
    except ApiError as error:
        return measured | {"ok": False, "error": str(error)}
    if job.state == "infeasible":
        devices = answer["infeasibility"]["devices"]
        return measured | {"ok": known.get("infeasible", False), "devices": devices}
    complaint = wrong_in_schedule(problem, answer["schedule"]) or check(
        {"problem": problem, "schedule": answer["schedule"]}, asked.checker
    )
    return {
        **measured,
        **figures_of(problem, answer),
        "solver_peak_bytes": memory.peak_bytes,
        "ok": complaint is None,
        "error": complaint,
    }


def figures_of(problem: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of an answer that has a schedule.

    `best_at_s` is when the answer's schedule was found, in seconds from the solver's start;
    `device_memory_share` the largest share that a device uses of its limit, None where none has
    one.
    """
    schedule, certificate = answer["schedule"], answer["certificate"]
    provenance = answer["provenance"]
    fitting = [
        row["makespan_ns"]
        for row in answer["comparison"]
        if row["fits"] and not row["hypothetical"] and row["makespan_ns"]
    ]
    steps: Sequence[Mapping[str, Any]] = provenance.get("steps") or ()
    shares = [
        peak / limit
        for peak, device in zip(schedule["peak_memory_bytes"], problem["devices"], strict=True)
        if (limit := device.get("activation_memory_bytes"))
    ]
    return {
        "makespan_ns": schedule["makespan_ns"],
        "lower_bound_ns": certificate["lower_bound_ns"],
        "bound_name": certificate["bound_name"],
        "gap": certificate["gap"],
        "proven_optimal": certificate["proven_optimal"],
        "best_classic_ns": min(fitting, default=None),
        "best_at_s": steps[-1]["seconds"] if steps else None,
        "device_memory_share": max(shares, default=None),
        "found_by": provenance.get("found_by"),
    }


if __name__ == "__main__":
    sys.exit(main())
