"""``python -m benchmarks.telemetry``: measure, print, and keep the figures."""

from __future__ import annotations

from benchmarks import telemetry
from benchmarks.common import is_default, parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import keep, show
from benchmarks.telemetry.bench import DATABASES, RUNS
from benchmarks.telemetry.measure import measured
from benchmarks.telemetry.report import POSTS, missed, record_of

PER_SECOND = 400.0


def main() -> int:
    """Print the figures, keep those of a run with nothing changed; 1 if a bar is missed."""
    parser = parser_for(telemetry.__doc__)
    parser.add_argument("--posts", type=int, default=POSTS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--per-second", type=float, default=PER_SECOND)
    parser.add_argument("--database", choices=DATABASES, action="append")
    asked = parser.parse_args()
    environment = environment_now()
    rows = [
        {"database": database, **measured(database, asked.posts, asked.runs, asked.per_second)}
        for database in asked.database or DATABASES
    ]
    record = record_of(rows, environment)
    show(record)
    if is_default(parser, asked):
        keep("telemetry", record)
    return int(any(missed(row) for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
