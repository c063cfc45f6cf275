"""All engines together against exhaustive search, on problems small enough for it."""

from __future__ import annotations

import os

import pytest

from planner.pipeline.options import SolveOptions
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp
from planner.pipeline.solve import run
from planner.pipeline.spec import AS_POSTED, Candidate, PipelineSpec
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify
from planner.progress import SilentReporter, never
from tests.unit.pipeline.milp.brute_force import ExhaustiveSearch, TooLarge
from tests.unit.pipeline.milp.random_problems import random_problem

SEEDS = int(os.environ.get("LOADMASTER_TEST_RANDOM_PROBLEMS", "12"))
"""How many random problems; 300 take some minutes."""
MOST_NODES = 4000


def solve(problem: PipelineProblem) -> tuple[int, int, bool]:
    """The objective, the bound and whether it is said to be optimal."""
    spec = PipelineSpec((Candidate(AS_POSTED, problem),), SolveOptions(time_limit_s=60.0))
    answer = run(spec.to_document(), SilentReporter(), never)
    assert answer["state"] == "succeeded"
    ops = [TimedOp(**op) for op in answer["document"]["schedule"]["ops"]]
    assert verify(problem, schedule_from_ops(problem, ops)) == []
    bounds = answer["document"]["certificate"]["bounds"]
    assert answer["lower_bound"] == max(bound["value_ns"] for bound in bounds)
    return answer["objective"], answer["lower_bound"], answer["proven_optimal"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_small_problems_are_proven_and_exhaustive_search_agrees() -> None:
    searched = 0
    for seed in range(1000, 1000 + SEEDS):
        problem = random_problem(seed)
        value, bound, proven = solve(problem)
        assert proven, seed
        assert bound == value, seed
        try:
            assert ExhaustiveSearch(problem, MOST_NODES).find_below(value) is None, seed
            searched += 1
        except TooLarge:
            continue
    assert searched >= SEEDS // 2
