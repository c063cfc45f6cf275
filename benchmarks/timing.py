"""How long timing and verifying a large schedule takes.

    python -m benchmarks.timing

Times the 1F1B orders of the problem with 16 devices and 128 micro-batches exactly and verifies
the schedule, several times over; prints the median of each and writes `results/timing.md` and
`.json`. 1 if the schedule is not valid.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.common import PROBLEMS, parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import Figure, Record, Table, keep, show
from planner.pipeline.classic.sequences import one_forward_one_backward
from planner.pipeline.documents import read_problem
from planner.pipeline.orders import Orders
from planner.pipeline.schedule import Token
from planner.pipeline.timing import time_orders
from planner.pipeline.verify import verify

PROBLEM = "large-16x128-1f1b-memory"
REPETITIONS = 11
COLUMNS = ("step", "median ms", "fastest ms", "slowest ms", "of")


@dataclass(frozen=True)
class Measured:
    """How long each step took, run by run (s), of a schedule of so many operations."""

    operations: int
    steps_s: Mapping[str, list[float]]
    is_valid: bool


def main() -> int:
    """Measure, print and keep the figures; 1 if the schedule is not valid."""
    environment = environment_now()
    measured = measure(PROBLEM, REPETITIONS)
    if not measured.is_valid:
        print("the schedule is not valid", file=sys.stderr)
        return 1
    record = record_of(PROBLEM, measured, environment)
    show(record)
    keep("timing", record)
    return 0


def measure(name: str, repetitions: int) -> Measured:
    """Time and verify the 1F1B schedule of a problem so many times."""
    problem = read_problem(json.loads((PROBLEMS / f"{name}.json").read_text()))
    fused = one_forward_one_backward(problem)
    orders = Orders(tuple(tuple(with_weights(tokens)) for tokens in fused.compute))
    steps_s: dict[str, list[float]] = {"timing": [], "verification": []}
    is_valid = True
    for _ in range(repetitions):
        started = time.perf_counter()
        schedule = time_orders(problem, orders)
        timed = time.perf_counter()
        is_valid &= not verify(problem, schedule)
        steps_s["timing"].append(timed - started)
        steps_s["verification"].append(time.perf_counter() - timed)
    return Measured(len(schedule.ops), steps_s, is_valid)


def record_of(name: str, measured: Measured, environment: Mapping[str, str]) -> Record:
    """What was measured as it is kept."""
    return Record(
        title="Timing and verification of a large schedule",
        command="python -m benchmarks.timing",
        note=f"1F1B on the problem `{name}`, {measured.operations:,} operations: *timing* finds "
        "when each of the operations runs if every device keeps to its order, *verification* "
        "checks every rule of the result. Wall-clock times.",
        tables=[
            Table("", COLUMNS, [_cells(step, own) for step, own in measured.steps_s.items()]),
        ],
        figures=list(_figures(measured)),
        environment=environment,
    )


def _cells(step: str, taken_s: list[float]) -> list[str]:
    figures = (statistics.median(taken_s), min(taken_s), max(taken_s))
    return [step, *(f"{own * 1e3:.0f}" for own in figures), f"{len(taken_s)} runs"]


def _figures(measured: Measured) -> Iterator[Figure]:
    for step, taken_s in measured.steps_s.items():
        yield Figure(step, statistics.median(taken_s) * 1e3, "ms", "less", noise=0.3, least=10.0)


def with_weights(tokens: tuple[Token, ...]) -> list[Token]:
    """The same order with W right after each B."""
    return [
        step
        for token in tokens
        for step in ((token, token._replace(op="W")) if token.op == "B" else (token,))
    ]


if __name__ == "__main__":
    parser_for(__doc__).parse_args()
    raise SystemExit(main())
