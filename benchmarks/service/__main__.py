"""``python -m benchmarks.service``: measure, print, and keep the figures."""

from __future__ import annotations

from typing import Any

from benchmarks import service
from benchmarks.common import is_default, parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import keep, show
from benchmarks.service.bench import POSTGRESQL, SQLITE, started
from benchmarks.service.measure import measure_all
from benchmarks.service.report import record_of, with_ratios


def main() -> int:
    """Print the figures, keep those of a run with nothing changed; 1 if a bar is missed."""
    parser = parser_for(service.__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    asked = parser.parse_args()
    environment = environment_now()
    measured: list[dict[str, Any]] = []
    for database in (SQLITE, POSTGRESQL):
        with started(database) as bench:
            measured += [{"database": database, **row} for row in measure_all(bench, asked.seconds)]
    rows = with_ratios(measured)
    command = f"python -m benchmarks.service --seconds {asked.seconds:g}"
    record = record_of(rows, command, environment)
    show(record)
    if is_default(parser, asked):
        keep("service", record)
    return int(any(row["missed"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
