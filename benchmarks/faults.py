"""Which faults the service survives: the long form of the tests in tests/chaos.

    python -m benchmarks.faults

Kills and stops servers, workers and APIs for about half an hour, prints what was seen and writes
`results/faults.md` and `.json`; 1 if anything was not as it should be.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import FOLDER, parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import Figure, Record, Table, keep, show

Seen = Mapping[str, Any]
NOTE = """\
Servers, workers and APIs are killed or stopped while jobs are posted and solved. Every job has to
end as it would have without that, none may be lost, and what cannot be answered meanwhile has to
be refused with 503: at once where the database is gone, and where it hangs after
`LOADMASTER_DATABASE_TIMEOUT_S` (5 s here, 15 by default) and a second. *Repeated* are solves that
began again, *losses* workers that went away with a solve, *crashes* solver processes that ended by
themselves; *usable after* and *solved after* count from when the server was back. *Time limit* and
*cancel* say how long after the request a solve was over; *makespan* is that of the plan which was
there by then."""


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
        seen = [json.loads(line) for line in file.read_text().splitlines()]
    record = record_of(seen, done.returncode == 0, environment)
    show(record)
    keep("faults", record)
    return done.returncode


def record_of(seen: Sequence[Seen], passed: bool, environment: Mapping[str, str]) -> Record:
    """What was seen as it is kept."""
    outcome = "All as it should be." if passed else "NOT ALL AS IT SHOULD BE."
    return Record(
        title="Faults survived",
        command="python -m benchmarks.faults",
        note=f"{NOTE}\n\n{outcome}",
        tables=[Table("", ("fault", "figures"), [(one["what"], words(one)) for one in seen])],
        figures=[
            Figure("cases that were seen", len(seen), "", "more", noise=0.0),
            Figure("runs in which something failed", int(not passed), "", "less", noise=0.0),
        ],
        environment=environment,
    )


def words(seen: Seen) -> str:
    """The figures of one fault."""
    return ", ".join(_words(seen))


def _words(seen: Seen) -> Iterator[str]:
    for name, value in seen.items():
        # All have the long form here.
        if name in ("what", "form"):
            continue
        if isinstance(value, Mapping):
            value = " ".join(f"{key} {count}" for key, count in value.items())
        yield f"{name.replace('_', ' ')} {value}"


if __name__ == "__main__":
    parser_for(__doc__).parse_args()
    raise SystemExit(main())
