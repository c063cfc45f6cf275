"""Which faults the service survives: the long form of the tests in tests/chaos.

    python -m benchmarks.faults

Kills and stops servers, workers and APIs for about half an hour, prints what was seen and writes
`results/faults.md` and `.json`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import FOLDER, parser_for
from benchmarks.environment import environment_lines, environment_now

Record = Mapping[str, Any]


def main() -> int:
    """Run the tests, print and keep their figures; their exit status."""
    environment = environment_now()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records"
        # Where no test records anything, there is nothing to report, but that.
        file.touch()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "tests/chaos"],
            cwd=FOLDER.parent,
            env={**os.environ, "CHAOS": "long", "CHAOS_RECORD": str(file)},
        )
        records = [json.loads(line) for line in file.read_text().splitlines()]
    document = {"environment": environment, "passed": done.returncode == 0, "records": records}
    results = FOLDER / "results"
    (results / "faults.json").write_text(json.dumps(document, indent=2) + "\n")
    text = report(document)
    (results / "faults.md").write_text(text)
    print(text)
    return done.returncode


def report(document: Mapping[str, Any]) -> str:
    """The table in Markdown."""
    outcome = "All as it should be." if document["passed"] else "NOT ALL AS IT SHOULD BE."
    lines = ["# Faults survived", "", *environment_lines(document["environment"]), "", outcome, ""]
    lines += ["| fault | figures |", "| --- | --- |"]
    lines += [
        f"| {record['what']} | {', '.join(_figures(record))} |" for record in document["records"]
    ]
    return "\n".join([*lines, ""])


def _figures(record: Record) -> Iterable[str]:
    for name, value in record.items():
        if name == "what":
            continue
        words = name.replace("_", " ")
        if isinstance(value, Mapping):
            value = " ".join(f"{key} {count}" for key, count in value.items())
        yield f"{words} {value}"


if __name__ == "__main__":
    parser_for(__doc__).parse_args()
    raise SystemExit(main())
