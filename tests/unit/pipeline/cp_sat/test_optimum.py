"""CP-SAT's optima and bounds against exhaustive search, the MILP and proven values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.pipeline.cp_sat.improve import improve_with_cp_sat
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.milp.improve import improve
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import MicroBatchOrder
from tests.unit.pipeline.cp_sat.apart import run_apart
from tests.unit.pipeline.cp_sat.solving import Remembering, never, settings
from tests.unit.pipeline.milp.problems import MS, balanced
from tests.unit.pipeline.milp.random_problems import random_problem
from tests.unit.pipeline.milp.solving import one_forward_one_backward
from tests.unit.pipeline.milp.solving import settings as milp_settings

MILP_SEEDS = range(1000, 1030)


@pytest.mark.slow
def test_optimum_of_small_problems_equals_exhaustive_search() -> None:
    assert run_apart("check_against_exhaustive_search", range(170)) > 100


def test_optimum_under_free_order_equals_every_order_timed() -> None:
    assert run_apart("check_free_order", range(300)) > 10


def test_optimum_equals_the_one_of_the_milp() -> None:
    proven = run_apart("proven_optima", MILP_SEEDS)
    for seed, value in zip(MILP_SEEDS, proven, strict=True):
        problem = random_problem(seed)
        start = sequential_schedule(problem)
        outcome = improve(problem, start, milp_settings("cbc"), Remembering(), never)
        assert objective_ns(problem, outcome.schedule or start) == value, seed


@pytest.mark.parametrize("order", MicroBatchOrder)
def test_balanced_problem_is_proven(order: MicroBatchOrder) -> None:
    # Micro-batches are alike and nothing is offloaded: their order makes no difference.
    problem = replace(balanced(), micro_batch_order=order)
    start = one_forward_one_backward(problem)
    report = Remembering()
    outcome = improve_with_cp_sat(problem, start, settings(), report, never)
    assert outcome.status == "optimal"
    assert outcome.lower_bound_ns == 453 * MS
    assert outcome.schedule is not None
    assert outcome.schedule.makespan_ns == 453 * MS
    assert max(report.bounds) == 453 * MS
    assert outcome.variables > 100


def test_without_a_start_the_schedule_is_found_from_nothing() -> None:
    problem = balanced(2, 4, memory=0.5)
    found: list[int] = []
    outcome = improve_with_cp_sat(
        problem, None, settings(), Remembering(), never, lambda s: found.append(s.makespan_ns)
    )
    assert outcome.status == "optimal"
    assert outcome.schedule is not None
    assert outcome.schedule.makespan_ns == outcome.lower_bound_ns == found[-1]


def test_an_optimal_start_is_not_answered_again() -> None:
    problem = balanced(2, 4)
    first = improve_with_cp_sat(problem, None, settings(), Remembering(), never)
    again = improve_with_cp_sat(problem, first.schedule, settings(), Remembering(), never)
    assert again.schedule is None
    assert again.status == "optimal"


def test_a_known_bound_that_is_met_needs_no_solver() -> None:
    problem = balanced(2, 4)
    start = one_forward_one_backward(problem)
    known = settings(lower_bound_ns=start.makespan_ns)
    outcome = improve_with_cp_sat(problem, start, known, Remembering(), never)
    assert (outcome.status, outcome.rounds) == ("optimal", [])


def test_gap_ends_the_search_early() -> None:
    problem = balanced()
    start = one_forward_one_backward(problem)
    known = settings(mip_gap=0.5, lower_bound_ns=400 * MS)
    outcome = improve_with_cp_sat(problem, start, known, Remembering(), never)
    assert (outcome.status, outcome.rounds) == ("gap", [])
