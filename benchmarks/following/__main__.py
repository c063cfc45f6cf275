"""How much plans that follow a run gain over plans that do not.

    python -m benchmarks.following

Simulates a training run of 2,000 iterations in several scenarios, each with 1F1B throughout, with
the best plan known at the start throughout, with plans that follow the run, and with an oracle
that knows the true times at each moment. Prints the figures and writes `results/following.md` and
`.json`; 1 if a bar is missed.
"""

from __future__ import annotations

import sys

from benchmarks.common import parser_for
from benchmarks.environment import environment_now
from benchmarks.following.policies import Following, Outcome, oracle, static
from benchmarks.following.report import Row, missed, record_of
from benchmarks.following.scenarios import (
    Scenario,
    degraded_link,
    lost_node,
    pipeline,
    slow_drift,
    steady,
    straggler,
    wrong_guess,
)
from benchmarks.following.solves import Solver, one_f_one_b
from benchmarks.recording import keep, show
from planner.following.settings import FollowSettings

SEARCH_ITERATIONS = 300
JITTERS = (0.01, 0.03, 0.1)
SEEDS = (1, 2, 3)


def main() -> int:
    """Run everything, print and keep the figures; 1 if a bar is missed."""
    environment = environment_now()
    solver = Solver(SEARCH_ITERATIONS)
    rows = []
    for scenario in scenarios():
        rows.append(compared(scenario, solver))
        print(rows[-1].name, file=sys.stderr, flush=True)
    record = record_of(rows, environment)
    show(record)
    keep("following", record)
    return int(any(True for row in rows for _ in missed(row)))


def scenarios() -> list[Scenario]:
    """What is simulated: drift of every kind, then nothing but jitter of several sizes."""
    even, moved = pipeline(), pipeline(depth=0.6, offload=True)
    return [
        wrong_guess(even),
        slow_drift(even),
        straggler(even),
        degraded_link(moved),
        lost_node(even, pipeline(devices=6, scale=8 / 6)),
        *(steady(even, jitter=jitter, seed=seed) for jitter in JITTERS for seed in SEEDS),
    ]


def compared(scenario: Scenario, solver: Solver) -> Row:
    """One scenario under every policy; the plan known at the start has the same budget."""
    plan = solver.solve(scenario.problem)
    assert plan is not None
    simple = one_f_one_b(scenario.problem)
    simple_outcome: Outcome | None = None if simple is None else static(scenario, simple)
    following = Following(scenario, plan, solver, FollowSettings())
    return Row(
        scenario=scenario,
        one_f_one_b=simple_outcome,
        static=static(scenario, plan),
        following=following.run(),
        oracle=oracle(scenario, plan, solver),
    )


if __name__ == "__main__":
    parser_for(__doc__).parse_args()
    raise SystemExit(main())
