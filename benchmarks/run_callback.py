"""What following a run costs a trainer: the time that `Run.iteration` and `Run.plan_at` take.

    python -m benchmarks.run_callback

A trainer that reports four stages every 2 ms beside a service, in a process of its own, that
answers at once, is away, answers late, or fails, and while plans arrive. Prints the figures and
writes `results/run-callback.md` and `.json`.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.common import parser_for
from benchmarks.environment import environment_now
from benchmarks.recording import Figure, Record, Table, keep, show
from client.library.run import Run
from tests.run_service import RUN_ID, ScriptedRuns

ITERATIONS = 5_000
PAUSE_S = 0.002
NOBODY = "http://127.0.0.1:9"
NS_PER_US = 1e3
Row = Mapping[str, Any]
OPERATIONS_OF_A_PLAN = 8 * 64 * 3
COLUMNS = ("the service", "median", "99 % within", "longest", "plans held")
NOTE = """\
What a training loop waits for in `Run.plan_at` and `Run.iteration` together, in µs per iteration
of {pause_ms:g} ms, with four stages; {iterations:,} iterations beside each service. Everything else
is done in a thread of its own, so what is long is a wait for Python's interpreter lock or for a
core. *Plans held* are the versions that the run knows at the end."""
STAGES = [
    {
        "stage": stage,
        "forward_ns": {"mean": 1_000_000, "median": 999_000, "p95": 1_100_000},
        "backward_input_ns": {"mean": 1_000_000, "median": 999_000, "p95": 1_100_000},
        "backward_weight_ns": {"mean": 1_000_000, "median": 999_000, "p95": 1_100_000},
        "peak_memory_bytes": 30_000_000_000,
    }
    for stage in range(4)
]


@dataclass(frozen=True)
class Case:
    """How the service behaves. With a `new_plan_every_s` it publishes plans meanwhile."""

    name: str
    is_there: bool = True
    fault: int | None = None
    delay_s: float = 0.0
    new_plan_every_s: float | None = None


CASES = (
    Case("answers at once"),
    Case("away", is_there=False),
    Case("answers after 3 s", delay_s=3.0),
    Case("answers 500", fault=500),
    Case("a new plan of 1,536 operations every second", new_plan_every_s=1.0),
)


def main() -> int:
    """Measure, print and keep the figures."""
    environment = environment_now()
    record = record_of([measured(case) for case in CASES], ITERATIONS, environment)
    show(record)
    keep("run-callback", record)
    return 0


def measured(case: Case, iterations: int = ITERATIONS) -> Row:
    """What the calls of one iteration take beside such a service, in ns."""
    with service(case) as address:
        run = Run.join(RUN_ID, rank=0, server=address)
        taken_ns = []
        for iteration in range(iterations):
            begin = time.perf_counter_ns()
            run.plan_at(iteration)
            run.iteration(iteration, STAGES, 40_000_000)
            taken_ns.append(time.perf_counter_ns() - begin)
            time.sleep(PAUSE_S)
        plans = len(run.plans)
        run.close(timeout_s=0.5)
    ordered = sorted(taken_ns)
    return {
        "service": case.name,
        "median_ns": round(statistics.median(ordered)),
        "p99_ns": ordered[len(ordered) * 99 // 100],
        "largest_ns": ordered[-1],
        "plans_held": plans,
    }


@contextmanager
def service(case: Case) -> Iterator[str]:
    """The address of a service like that; it has an interpreter of its own."""
    if not case.is_there:
        yield NOBODY
        return
    own, other = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(case, other), daemon=True
    )
    process.start()
    try:
        yield own.recv()
    finally:
        process.kill()
        process.join()


def serve(case: Case, told: Connection) -> None:
    """Answer for ever."""
    script = ScriptedRuns()
    script.fault, script.delay_s = case.fault, case.delay_s
    script.publish(apply_at=0)
    ops = [
        {"op": "F", "stage": 0, "micro_batch": number, "start_ns": number, "end_ns": number + 1}
        for number in range(OPERATIONS_OF_A_PLAN)
    ]
    with script.served() as address:
        told.send(address)
        while True:
            time.sleep(case.new_plan_every_s or 1.0)
            if case.new_plan_every_s is not None:
                script.publish(schedule={"ops": ops})


def record_of(rows: Sequence[Row], iterations: int, environment: Mapping[str, str]) -> Record:
    """The rows as they are kept."""
    return Record(
        title="What following a run costs the trainer",
        command="python -m benchmarks.run_callback",
        note=NOTE.format(iterations=iterations, pause_ms=PAUSE_S * 1e3),
        tables=[Table("", COLUMNS, [_cells(row) for row in rows])],
        figures=[figure for row in rows for figure in _figures(row)],
        environment=environment,
    )


def _cells(row: Row) -> list[str]:
    taken = (row[name] / NS_PER_US for name in ("median_ns", "p99_ns", "largest_ns"))
    return [row["service"], *(f"{own:,.1f}" for own in taken), str(row["plans_held"])]


def _figures(row: Row) -> Iterator[Figure]:
    """The longest call is the machine's doing and is compared with nothing."""
    name, median, p99 = row["service"], row["median_ns"] / NS_PER_US, row["p99_ns"] / NS_PER_US
    yield Figure(f"median, {name}", median, "µs", "less", noise=0.3, least=5.0)
    yield Figure(f"99 % within, {name}", p99, "µs", "less", noise=0.5, least=100.0)


if __name__ == "__main__":
    parser_for(__doc__).parse_args()
    raise SystemExit(main())
