"""``python -m benchmarks.models``: predict, print, and keep the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks import models
from benchmarks.common import parser_for
from benchmarks.environment import environment_now
from benchmarks.models import a100, h100
from benchmarks.models.measure import Measured
from benchmarks.recording import Record, keep, show

TABLES: Mapping[str, Callable[[Mapping[str, str]], tuple[Record, list[Measured]]]] = {
    "a100": a100.table,
    "h100": h100.table,
}


def main() -> int:
    """Make the tables that are asked for; 1 if something is wrong with a plan."""
    parser = parser_for(models.__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="a100, h100; both if none")
    asked = parser.parse_args().tables or list(TABLES)
    if unknown := set(asked) - set(TABLES):
        parser.error(f"no such table: {', '.join(sorted(unknown))}")
    complaints: list[str] = []
    for name in asked:
        environment = environment_now()
        record, rows = TABLES[name](environment)
        show(record)
        keep(f"models-{name}", record)
        complaints += (complaint for row in rows for complaint in row.complaints())
    print(*complaints, sep="\n")
    return int(bool(complaints))


if __name__ == "__main__":
    raise SystemExit(main())
