"""Planned against measured: how long 1F1B and the planner's schedule take when PyTorch runs them.

    python -m benchmarks.torch_timing [--attempts N]

Each of four processes runs one stage of a small Transformer over gloo, from the exported CSV file
alone; every operation is padded by sleeping to the time that the problem has for it, so that the
order of operations decides. The problem's times are what `loadmaster profile` measures of such a
model just before, made so much longer that a forward takes 0.3 s in the mean. What is added to the
plan is what PyTorch does between operations: handing tensors over (about 3 ms each) and, on a busy
machine, processes that wake late. Prints the figures; without arguments it also writes
`results/torch-timing.md` and `.json`. 11 attempts take two minutes. Needs PyTorch
(`scripts/test --torch` installs it).
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from benchmarks.common import is_default, parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import Figure, Record, Table, keep, show
from planner.version import __version__
from tests.integration.torch import timed

ATTEMPTS = 11
COLUMNS = ("schedule", "planned s", "median s", "median error", "least", "most", "attempts")
NOTE = """\
Four processes of PyTorch, one stage of a small Transformer each, run {micro_batches} micro-batches
over gloo by the exported CSV file alone. Every operation is padded by sleeping to the time that the
problem has for it, which is its measured time made so much longer that a forward takes {forward_s}
s in the mean: the order of operations decides, and the cores are shared by all four. *Error* is how
much longer a step takes than planned. Loadmaster's step is shorter than {classic}'s by
{planned:.1f} % as planned, {measured:.1f} % as measured (medians)."""


def main() -> int:
    """Measure, print and keep the figures."""
    parser = parser_for(__doc__)
    parser.add_argument("--attempts", type=int, default=ATTEMPTS, help="steps of each schedule")
    asked = parser.parse_args()
    versions = f"loadmaster {__version__}, Python {platform.python_version()}"
    environment = environment_now() | {"versions": f"{versions}, PyTorch {version('torch')}"}
    with tempfile.TemporaryDirectory() as folder:
        record = record_of(timed.measure(Path(folder), asked.attempts), environment)
    show(record)
    if is_default(parser, asked):
        keep("torch-timing", record)
    return 0


def record_of(timings: Mapping[str, timed.Timing], environment: Mapping[str, str]) -> Record:
    """The timings, by schedule, as they are kept."""
    classic, ours = timings[timed.CLASSIC], timings[timed.OURS]
    note = NOTE.format(
        micro_batches=timed.MICRO_BATCHES,
        forward_s=timed.FORWARD_S,
        classic=timed.CLASSIC,
        planned=100 * (1 - ours.planned_s / classic.planned_s),
        measured=100 * (1 - ours.median_s / classic.median_s),
    )
    return Record(
        title="Planned and measured makespans in PyTorch",
        command="python -m benchmarks.torch_timing",
        note=note,
        tables=[Table("", COLUMNS, [_cells(name, timing) for name, timing in timings.items()])],
        figures=[figure for name, timing in timings.items() for figure in _figures(name, timing)],
        environment=environment,
    )


def _cells(name: str, timing: timed.Timing) -> list[str]:
    errors = sorted(measured / timing.planned_s - 1 for measured in timing.measured_s)
    return [
        name,
        f"{timing.planned_s:.3f}",
        f"{timing.median_s:.3f}",
        f"{_median_error(timing):+.2%}",
        f"{errors[0]:+.2%}",
        f"{errors[-1]:+.2%}",
        str(len(errors)),
    ]


def _figures(name: str, timing: timed.Timing) -> Iterator[Figure]:
    """How far the plan is from what happens; the plan itself is of times measured anew."""
    error = _median_error(timing) * 100
    yield Figure(f"median error, {name}", error, "%", "less", noise=0.3, least=2.0)


def _median_error(timing: timed.Timing) -> float:
    return float(timing.median_s / timing.planned_s - 1)


if __name__ == "__main__":
    sys.exit(main())
