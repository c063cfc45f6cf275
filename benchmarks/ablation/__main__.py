"""What each part of the pipeline solver adds: heuristics, local search, CBC, HiGHS and CP-SAT.

    python -m benchmarks.ablation

Solves six problems of `problems/` with each variant of the solver, on one thread in this process,
and random problems of growing size with some of them; about 25 minutes. Needs no service. Writes
`results/ablation.json` and `results/ablation.md`; exits with 1 if the verifier refuses a schedule
or a bound lies above one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from benchmarks.ablation.courses import Course, best_bound_ns, contradictions, courses
from benchmarks.ablation.proof_rates import Rate, proof_rate
from benchmarks.ablation.report import chart, record_of
from benchmarks.ablation.sizes import Size, milp_sizes
from benchmarks.ablation.variants import load_compiled
from benchmarks.common import PROBLEMS, parser_for
from benchmarks.environment import environment_now
from benchmarks.figures import draw
from benchmarks.recording import keep, show

LIMITS_S: Mapping[str, float] = {
    "offload-4x8-tight": 60.0,
    "varlen-4x12": 60.0,
    "uneven-8x16-1f1b-memory": 60.0,
    "lmhead-8x32": 20.0,
    "zb-6.2b-8x32-mem0.75": 60.0,
    "large-16x64-offload": 20.0,
}
SIZES = ((2, 4), (4, 4), (4, 8), (4, 16), (8, 16), (8, 32))
PROBLEMS_PER_SIZE, RATE_LIMIT_S = 10, 5.0


def main() -> int:
    """Run everything; 1 if something is wrong."""
    parser_for(__doc__).parse_args()
    environment = environment_now()
    load_compiled()
    runs = [measured(name, limit_s) for name, limit_s in LIMITS_S.items()]
    sizes = {own[0].problem: sizes_of(own) for own in runs}
    rates = [said(proof_rate(*size, PROBLEMS_PER_SIZE, RATE_LIMIT_S)) for size in SIZES]
    images = [draw("ablation", chart(runs))]
    record = record_of(runs, sizes, rates, RATE_LIMIT_S, environment, images)
    show(record)
    keep("ablation", record)
    groups = [*runs, *(own for rate in rates for own in rate.runs)]
    wrong = [sentence for group in groups for sentence in contradictions(group)]
    print(*wrong, sep="\n", file=sys.stderr)
    return int(bool(wrong))


def measured(name: str, limit_s: float) -> list[Course]:
    """A run of each variant on a problem of `problems/`."""
    problem = json.loads((PROBLEMS / f"{name}.json").read_text())
    runs = []
    for run in courses(name, problem, limit_s):
        print(f"{name}, {run.variant}: {run.best_ns} ns, {run.seconds:.1f} s", file=sys.stderr)
        runs.append(run)
    return runs


def sizes_of(runs: Sequence[Course]) -> Sequence[Size | None]:
    """Of the MILP of a problem, once its best schedule and bound are known."""
    problem = json.loads((PROBLEMS / f"{runs[0].problem}.json").read_text())
    best_ns = min(run.best_ns for run in runs if run.best_ns is not None)
    return milp_sizes(problem, best_ns, best_bound_ns(runs))


def said(rate: Rate) -> Rate:
    """The same, once it is printed."""
    print(f"random {rate.stages} x {rate.micro_batches}: {rate.proven}", file=sys.stderr)
    return rate


if __name__ == "__main__":
    sys.exit(main())
