"""``python -m benchmarks.predictions``: work out, print, and keep the tables."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import predictions
from benchmarks.common import parser_for
from benchmarks.environment import environment_now
from benchmarks.predictions import (
    megatron,
    memory,
    offload,
    rates,
    schedules,
    sharding,
    times,
    unexplained,
)
from benchmarks.predictions.rows import Group, summary
from benchmarks.recording import Record, keep, show

NOTE = """\
One cost model with one set of rates (`docs/methods.md`, section 2), nothing tuned per row. Three of
the rates were fitted, once and together, to the groups of which the summary says so; all others
were not looked at for that. An error is ours over the reference, less one; of shares it is the
difference in percentage points. *Shares* of a group stand apart in the summary for that reason."""


def main() -> int:
    """Print and keep the tables."""
    environment = environment_now()
    groups = list(all_groups())
    record = Record(
        title="Every reference value with our error",
        command="python -m benchmarks.predictions",
        note=NOTE,
        tables=[
            summary(groups),
            *(group.table() for group in groups),
            *offload.tables(),
            unexplained.reported_case(),
            unexplained.not_predicted(),
        ],
        figures=[part.figure() for group in groups for part in group.parts()],
        environment=environment,
    )
    show(record)
    keep("predictions", record)
    return 0


def all_groups() -> Iterator[Group]:
    """The tables, sizes first."""
    for module in (memory, megatron, sharding, times, rates, schedules, offload):
        yield from module.groups()


if __name__ == "__main__":
    parser_for(predictions.__doc__).parse_args()
    raise SystemExit(main())
