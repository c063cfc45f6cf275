"""Planned against measured: how long 1F1B and the planner's schedule take when PyTorch runs them.

    python -m benchmarks.torch_timing [--attempts N]

Each of four processes runs one stage of a small Transformer over gloo, from the exported CSV file
alone; every operation is padded by sleeping to the time that the problem has for it, so that the
order of operations decides. The problem's times are what `loadmaster profile` measures of such a
model just before, made so much longer that a forward takes 0.3 s in the mean. What is added to the
plan is what PyTorch does between operations: handing tensors over (about 3 ms each) and, on a busy
machine, processes that wake late. Prints the figures and writes `results/torch-timing.md`; 11
attempts take two minutes. Needs PyTorch (`scripts/test --torch` installs it).
"""

from __future__ import annotations

import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from benchmarks.common import FOLDER, parser_for
from benchmarks.environment import environment_lines, environment_now
from planner.version import __version__
from tests.integration.torch import timed

ATTEMPTS = 11


def main() -> int:
    """Measure, print and keep the figures."""
    parser = parser_for(__doc__)
    parser.add_argument("--attempts", type=int, default=ATTEMPTS, help="steps of each schedule")
    attempts = parser.parse_args().attempts
    versions = f"loadmaster {__version__}, Python {platform.python_version()}"
    environment = environment_now() | {"versions": f"{versions}, PyTorch {version('torch')}"}
    with tempfile.TemporaryDirectory() as folder:
        timings = timed.measure(Path(folder), attempts)
    classic, ours = timings[timed.CLASSIC], timings[timed.OURS]
    lines = [
        f"# Planned and measured makespans, 4 processes, {timed.MICRO_BATCHES} micro-batches",
        "",
        *environment_lines(environment),
        "",
        "| schedule | planned s | median s | median error | best | worst | attempts |",
        "|" + " --- |" * 7,
        *(_row(name, timing) for name, timing in timings.items()),
        "",
        f"Gain over {timed.CLASSIC}: planned {classic.planned_s / ours.planned_s - 1:.1%}, "
        f"measured {classic.median_s / ours.median_s - 1:.1%} (medians).",
        "",
    ]
    (FOLDER / "results" / "torch-timing.md").write_text("\n".join(lines))
    print("\n".join(lines))
    return 0


def _row(name: str, timing: timed.Timing) -> str:
    errors = sorted(measured / timing.planned_s - 1 for measured in timing.measured_s)
    median_error = timing.median_s / timing.planned_s - 1
    return (
        f"| {name} | {timing.planned_s:.3f} | {timing.median_s:.3f} | {median_error:+.2%} "
        f"| {errors[0]:+.2%} | {errors[-1]:+.2%} | {len(errors)} |"
    )


if __name__ == "__main__":
    sys.exit(main())
