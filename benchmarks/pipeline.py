"""Posts the benchmark problems to a running service and compares the answers.

    python -m benchmarks.pipeline [--server URL] [--time-limit S] [--engine E] [--checker FILE]
                                  [NAME ...]

Each answer is set beside the best value known (`problems/best-known.json`) and the best classic
schedule of its own comparison, and checked by an independent checker program if one is given.
Writes `results/pipeline.json` and `results/pipeline.md`; exits with 1 if an answer is missing or
refused by the checker.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from client.api import DEFAULT_SERVER, TERMINAL_STATES, LoadmasterClient
from client.errors import ApiError

FOLDER = Path(__file__).parent
PROBLEMS = FOLDER / "problems"
POLL_S = 0.5
# These need more than a minute of plain search, or carry published profiles of another size.
LEFT_OUT_BY_DEFAULT = ("large", "zb-")


def main() -> int:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description="Benchmark the pipeline scheduler.")
    parser.add_argument("--server", default=DEFAULT_SERVER)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--engine", default="cbc")
    parser.add_argument("--checker", type=Path, help="a program that checks a result file")
    parser.add_argument("names", nargs="*", help="problems; all that are solvable in a minute")
    arguments = parser.parse_args()
    known = json.loads((PROBLEMS / "best-known.json").read_text())
    names = arguments.names or [n for n in known if not n.startswith(LEFT_OUT_BY_DEFAULT)]
    rows = []
    with LoadmasterClient(arguments.server) as client:
        for name in names:
            row = measure(client, name, known[name], arguments)
            rows.append(row)
            print(as_line(row), flush=True)
    write_results(rows, arguments)
    return 0 if all(row["ok"] for row in rows) else 1


def wait_for(client: LoadmasterClient, job_id: str) -> dict[str, Any]:
    """The status of a job once it is over."""
    while (status := client.status(job_id))["state"] not in TERMINAL_STATES:
        time.sleep(POLL_S)
    return status


def measure(
    client: LoadmasterClient, name: str, known: dict[str, Any], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Solve one problem afresh and describe the answer."""
    problem = json.loads((PROBLEMS / f"{name}.json").read_text())
    solver = {"engine": arguments.engine, "time_limit_s": arguments.time_limit}
    started = time.monotonic()
    job = client.submit({"problem": problem, "solver": solver, "name": name}, fresh=True)
    status = wait_for(client, job["id"])
    row: dict[str, Any] = {
        "name": name,
        "state": status["state"],
        "seconds": round(time.monotonic() - started, 1),
        "best_known_ns": known.get("makespan_ns"),
    }
    try:
        answer = client.result(job["id"])
    except ApiError as error:
        return row | {"ok": False, "error": str(error)}
    if status["state"] == "infeasible":
        expected = known.get("infeasible", False)
        return row | {"ok": expected, "devices": answer["infeasibility"]["devices"]}
    fitting = [
        row["makespan_ns"]
        for row in answer["comparison"]
        if row["fits"] and not row["hypothetical"] and row["makespan_ns"]
    ]
    certificate = answer["certificate"]
    row |= {
        "makespan_ns": answer["schedule"]["makespan_ns"],
        "lower_bound_ns": certificate["lower_bound_ns"],
        "bound_name": certificate["bound_name"],
        "gap": certificate["gap"],
        "proven_optimal": certificate["proven_optimal"],
        "best_classic_ns": min(fitting, default=None),
        "found_by": answer["provenance"]["found_by"],
    }
    complaint = check(problem, answer["schedule"], arguments.checker)
    return row | {"ok": complaint is None, "error": complaint}


def check(problem: dict[str, Any], schedule: dict[str, Any], checker: Path | None) -> str | None:
    """What the independent checker has against a schedule of the problem as it was posted."""
    if checker is None:
        return None
    document = json.dumps({"problem": problem, "schedule": schedule})
    run = subprocess.run(
        [sys.executable, str(checker), "-"], input=document, capture_output=True, text=True
    )
    return None if run.returncode == 0 else run.stdout.strip() or run.stderr.strip()


def milliseconds(value_ns: int | None) -> str:
    """Nanoseconds as milliseconds for a table."""
    return "–" if value_ns is None else f"{value_ns / 1e6:.2f}"


def as_line(row: dict[str, Any]) -> str:
    """One row of the table in Markdown."""
    ratio = (
        f"{row['makespan_ns'] / row['best_known_ns']:.3f}"
        if row.get("makespan_ns") and row["best_known_ns"]
        else "–"
    )
    cells = [
        row["name"],
        row["state"],
        milliseconds(row.get("makespan_ns")),
        milliseconds(row["best_known_ns"]),
        ratio,
        milliseconds(row.get("best_classic_ns")),
        milliseconds(row.get("lower_bound_ns")),
        "proven" if row.get("proven_optimal") else f"{row.get('gap', 0):.2%}",
        row.get("found_by") or "–",
        f"{row['seconds']}",
        "yes" if row["ok"] else f"NO: {row.get('error')}",
    ]
    return "| " + " | ".join(cells) + " |"


def write_results(rows: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    """Keep the figures beside the program."""
    header = (
        "| problem | state | makespan ms | best known ms | ratio | best fitting classic ms "
        "| bound ms | gap | found by | seconds | accepted |"
    )
    rule = "|" + " --- |" * 11
    title = f"Pipeline schedules, engine {arguments.engine}, limit {arguments.time_limit:g} s"
    table = "\n".join([f"# {title}", "", header, rule, *map(as_line, rows), ""])
    results = FOLDER / "results"
    results.mkdir(exist_ok=True)
    (results / "pipeline.md").write_text(table)
    (results / "pipeline.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
