"""``python -m benchmarks.service``: measure, print, and keep the figures."""

from __future__ import annotations

from typing import Any

from benchmarks import service
from benchmarks.common import parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import keep, show
from benchmarks.service.bench import POSTGRESQL, SQLITE, started
from benchmarks.service.measure import measure_all
from benchmarks.service.report import record_of, with_ratios


def main() -> int:
    """Print and keep the figures; 1 if a bar is missed."""
    parser = parser_for(service.__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    seconds = parser.parse_args().seconds
    environment = environment_now()
    measured: list[dict[str, Any]] = []
    for database in (SQLITE, POSTGRESQL):
        with started(database) as bench:
            measured += [{"database": database, **row} for row in measure_all(bench, seconds)]
    rows = with_ratios(measured)
    record = record_of(rows, f"python -m benchmarks.service --seconds {seconds:g}", environment)
    show(record)
    keep("service", record)
    return int(any(row["missed"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
