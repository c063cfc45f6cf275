"""Posts the benchmark problems to a running service and compares the answers.

    python -m benchmarks.pipeline [--server URL] [--time-limit S] [--engines E,E] [--checker FILE]
                                  [NAME ...]

Every problem of `problems/` is solved afresh by each engine in turn. Each answer is set beside
the best value known (`problems/best-known.json`) and the best classic schedule of its own
comparison, and checked by an independent checker program if one is given. Writes
`results/pipeline.json` and `results/pipeline.md` after each problem; exits with 1 if an answer is
missing or refused by the checker.
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

from benchmarks.common import BEST_KNOWN, FOLDER, PROBLEMS, check, wait_for
from benchmarks.report import as_line, header, summary
from benchmarks.solver_memory import SolverMemory
from client.connecting import connect
from client.errors import ApiError
from client.library.requests import DEFAULT_SERVER
from client.library.service import Service
from planner.pipeline.options import DEFAULT_ENGINE, Engine

THIS_MACHINE = ("127.0.0.1", "::1", "localhost")


def main() -> int:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description="Benchmark the pipeline scheduler.")
    parser.add_argument("--server", default=DEFAULT_SERVER)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--engines", type=read_engines, default=(DEFAULT_ENGINE,))
    parser.add_argument("--checker", type=Path, help="a program that checks a result file")
    parser.add_argument("names", nargs="*", help="problems; all that there are")
    arguments = parser.parse_args()
    names = arguments.names or sorted(p.stem for p in PROBLEMS.glob("*.json") if p != BEST_KNOWN)
    best_known = json.loads(BEST_KNOWN.read_text())
    rows: list[dict[str, Any]] = []
    print(header(arguments.engines))
    with connect(arguments.server) as client:
        for name in names:
            known = best_known.get(name, {})
            engines = {e: measure(client, name, known, e, arguments) for e in arguments.engines}
            row = {"name": name, "best_known_ns": known.get("makespan_ns"), "engines": engines}
            rows.append(row)
            print(as_line(row), flush=True)
            write_results(rows, arguments)
    print("", summary(rows, arguments.engines), sep="\n")
    return 0 if all(m["ok"] for row in rows for m in row["engines"].values()) else 1


def read_engines(text: str) -> tuple[str, ...]:
    """Engines from a list with commas."""
    engines = tuple(dict.fromkeys(text.split(",")))
    if unknown := set(engines) - set(get_args(Engine)):
        raise argparse.ArgumentTypeError(f"no such engine: {', '.join(sorted(unknown))}")
    return engines


def measure(
    client: Service,
    name: str,
    known: Mapping[str, Any],
    engine: str,
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Solve one problem afresh and describe the answer."""
    problem = json.loads((PROBLEMS / f"{name}.json").read_text())
    solver = {"engine": engine, "time_limit_s": arguments.time_limit}
    memory = SolverMemory()
    is_here = urllib.parse.urlsplit(arguments.server).hostname in THIS_MACHINE
    sample: Callable[[], None] = memory.sample if is_here else lambda: None
    started = time.monotonic()
    job = client.submit(
        "pipeline", {"problem": problem, "solver": solver, "name": name}, fresh=True
    )
    status = wait_for(client, job["id"], sample)
    measured = {"state": status["state"], "seconds": round(time.monotonic() - started, 1)}
    try:
        answer = client.result(job["id"])
    except ApiError as error:
        return measured | {"ok": False, "error": str(error)}
    if status["state"] == "infeasible":
        devices = answer["infeasibility"]["devices"]
        return measured | {"ok": known.get("infeasible", False), "devices": devices}
    complaint = check({"problem": problem, "schedule": answer["schedule"]}, arguments.checker)
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
        "stopped_by": provenance["stopped_by"],
        "ablation": provenance.get("ablation"),
        "planner_version": provenance["planner_version"],
    }


def write_results(rows: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> None:
    """Keep the figures beside the program."""
    engines = arguments.engines
    title = f"# Pipeline schedules, {', '.join(engines)}, limit {arguments.time_limit:g} s"
    table = "\n".join([header(engines), *map(as_line, rows)])
    results = FOLDER / "results"
    results.mkdir(exist_ok=True)
    (results / "pipeline.md").write_text(f"{title}\n\n{table}\n\n{summary(rows, engines)}\n")
    document = {"time_limit_s": arguments.time_limit, "engines": engines, "rows": rows}
    (results / "pipeline.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
