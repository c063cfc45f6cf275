"""How long timing and verifying a large schedule takes.

    python -m benchmarks.timing

Times the 1F1B orders of the problem with 16 devices and 128 micro-batches exactly and verifies
the schedule, several times over; prints the median of each and writes `results/timing.md`.
"""

from __future__ import annotations

import json
import statistics
import time

from benchmarks.common import FOLDER, PROBLEMS, parser_for
from planner.pipeline.classic.sequences import one_forward_one_backward
from planner.pipeline.documents import read_problem
from planner.pipeline.orders import Orders
from planner.pipeline.schedule import Token
from planner.pipeline.timing import time_orders
from planner.pipeline.verify import verify

PROBLEM = "large-16x128-1f1b-memory"
REPETITIONS = 11


def main() -> None:
    """Measure, print and keep the figures."""
    problem = read_problem(json.loads((PROBLEMS / f"{PROBLEM}.json").read_text()))
    fused = one_forward_one_backward(problem)
    orders = Orders(tuple(tuple(with_weights(tokens)) for tokens in fused.compute))
    timing_s, verification_s = [], []
    for _ in range(REPETITIONS):
        started = time.perf_counter()
        schedule = time_orders(problem, orders)
        timed = time.perf_counter()
        if verify(problem, schedule):
            raise SystemExit("the schedule is not valid")
        timing_s.append(timed - started)
        verification_s.append(time.perf_counter() - timed)
    lines = [
        f"# Timing and verification, {PROBLEM}, {len(schedule.ops)} operations",
        "",
        "| step | median ms | of |",
        "| --- | --- | --- |",
        f"| timing | {statistics.median(timing_s) * 1e3:.0f} | {REPETITIONS} runs |",
        f"| verification | {statistics.median(verification_s) * 1e3:.0f} | {REPETITIONS} runs |",
        "",
    ]
    (FOLDER / "results" / "timing.md").write_text("\n".join(lines))
    print("\n".join(lines))


def with_weights(tokens: tuple[Token, ...]) -> list[Token]:
    """The same order with W right after each B."""
    return [
        step
        for token in tokens
        for step in ((token, token._replace(op="W")) if token.op == "B" else (token,))
    ]


if __name__ == "__main__":
    parser_for(__doc__).parse_args()
    main()
