"""``python -m benchmarks.service``: measure, print, and keep the figures."""

from __future__ import annotations

import argparse
import json
from typing import Any

from benchmarks.common import FOLDER
from benchmarks.environment import environment_now
from benchmarks.service.bench import POSTGRESQL, SQLITE, started
from benchmarks.service.measure import measure_all
from benchmarks.service.report import report, with_ratios


def main() -> int:
    """Print and write the figures; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description="How fast the service answers.")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    seconds = parser.parse_args().seconds
    environment = environment_now()
    rows: list[dict[str, Any]] = []
    for database in (SQLITE, POSTGRESQL):
        with started(database) as bench:
            rows += [{"database": database, **row} for row in measure_all(bench, seconds)]
    document: dict[str, Any] = {"environment": environment, "rows": with_ratios(rows)}
    results = FOLDER / "results"
    (results / "service.json").write_text(json.dumps(document, indent=2) + "\n")
    text = report(document)
    (results / "service.md").write_text(text)
    print(text)
    return int(any(row["missed"] for row in document["rows"]))


if __name__ == "__main__":
    raise SystemExit(main())
