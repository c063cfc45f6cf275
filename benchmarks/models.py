"""The table of four models on 8 × A100-40GB: 1F1B, PipeOffload and Loadmaster's answer.

    python -m benchmarks.models [--server URL] [--time-limit S] [--checker FILE]

Posts the shipped examples (micro-batch size 1, sequence 1024, 32 micro-batches) to a running
service, prints one row per model with `OOM` where a schedule does not fit in memory, and writes
`results/models.md`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import FOLDER, check, milliseconds, wait_for
from client.connecting import connect
from client.library.requests import DEFAULT_SERVER

EXAMPLES = FOLDER.parent / "planner" / "examples"
MODELS = ("gpt-1.5b", "gpt-3.6b", "gpt-7.1b", "gpt-14.2b")
HEADER = (
    "| model | 1F1B ms | ZB-H1 ms | PipeOffload ms | Loadmaster ms | bubble "
    "| shorter than PipeOffload | bound ms | gap | found by | accepted |"
)


def main() -> int:
    """Print and write the table from the command line."""
    parser = argparse.ArgumentParser(description="The table of four models on 8 × A100-40GB.")
    parser.add_argument("--server", default=DEFAULT_SERVER)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--checker", type=Path, help="a program that checks a result file")
    arguments = parser.parse_args()
    lines = [HEADER, "|" + " --- |" * HEADER.count(" |")]
    accepted = True
    with connect(arguments.server) as client:
        for model in MODELS:
            body = json.loads((EXAMPLES / f"{model}-8xA100-40GB.json").read_text())
            body["solver"] = {"time_limit_s": arguments.time_limit}
            job = client.submit("pipeline", body)
            wait_for(client, job["id"])
            answer = client.result(job["id"])
            complaint = check(
                {"problem": answer["problem"], "schedule": answer["schedule"]}, arguments.checker
            )
            accepted &= complaint is None
            lines.append(as_line(model, answer, complaint))
            print("\n".join(lines[-1:]), flush=True)
    title = "# Four models on 8 × A100-40GB, micro-batch size 1, sequence 1024, M = 32"
    table = "\n".join([title, "", *lines, ""])
    (FOLDER / "results" / "models.md").write_text(table)
    print(table)
    return 0 if accepted else 1


def classic(answer: dict[str, Any], prefix: str) -> dict[str, Any] | None:
    """The best row of the comparison whose name begins so; a fitting one if there is any."""
    rows = [r for r in answer["comparison"] if r["name"].startswith(prefix) and r["makespan_ns"]]
    return min(rows, key=lambda r: (not r["fits"], r["makespan_ns"]), default=None)


def time_or_oom(row: dict[str, Any] | None) -> str:
    """A makespan in ms, or what kept the schedule from having one."""
    if row is None:
        return "–"
    return milliseconds(row["makespan_ns"]) if row["fits"] else "OOM"


def as_line(model: str, answer: dict[str, Any], complaint: str | None) -> str:
    """One row of the table in Markdown."""
    certificate, schedule = answer["certificate"], answer["schedule"]
    rival = classic(answer, "PipeOffload")
    saved = (
        f"{1 - schedule['makespan_ns'] / rival['makespan_ns']:+.1%}"
        if rival is not None and rival["fits"]
        else "–"
    )
    busy = sum(op["end_ns"] - op["start_ns"] for op in schedule["ops"] if op["op"] in "FBW")
    bubble = 1 - busy / (len(answer["problem"]["devices"]) * schedule["makespan_ns"])
    cells = [
        model,
        time_or_oom(classic(answer, "1F1B")),
        time_or_oom(classic(answer, "ZB-H1")),
        time_or_oom(rival),
        milliseconds(schedule["makespan_ns"]),
        f"{bubble:.1%}",
        saved,
        milliseconds(certificate["lower_bound_ns"]),
        "proven" if certificate["proven_optimal"] else f"{certificate['gap']:.2%}",
        f"{answer['provenance']['found_by']}, {answer['provenance']['placement']}",
        "yes" if complaint is None else f"NO: {complaint}",
    ]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
