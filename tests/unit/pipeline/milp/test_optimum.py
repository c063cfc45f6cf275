"""The MILP's optimum and bounds against exhaustive search and proven values."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.milp.improve import improve
from planner.pipeline.milp.relabel import (
    common_order,
    inverse,
    renumber_problem,
    renumber_schedule,
)
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import MicroBatchOrder
from planner.pipeline.schedule import COMPUTE_KINDS, Schedule, Token
from planner.pipeline.timing import Orders, time_orders
from planner.pipeline.verify import verify
from tests.unit.pipeline.milp.brute_force import ExhaustiveSearch, TooLarge
from tests.unit.pipeline.milp.problems import MS, balanced
from tests.unit.pipeline.milp.random_problems import random_problem
from tests.unit.pipeline.milp.solving import (
    Engine,
    Remembering,
    never,
    one_forward_one_backward,
    settings,
)

ENGINES: tuple[Engine, Engine] = ("cbc", "highs")
SEEDS = 180
ENOUGH = 100
MOST_NODES = 2500


def test_optimum_of_small_problems_equals_exhaustive_search() -> None:
    searched = 0
    for seed in range(SEEDS):
        problem = random_problem(seed)
        report = Remembering()
        start = sequential_schedule(problem)
        engine = ENGINES[seed % 5 == 0]
        outcome = improve(problem, start, settings(engine), report, never)
        best = outcome.schedule or start
        value = objective_ns(problem, best)
        assert not verify(problem, best), seed
        assert outcome.status == "optimal", seed
        assert outcome.lower_bound_ns == value, seed
        assert all(bound <= value for _, bound in report.bounds), seed
        try:
            assert ExhaustiveSearch(problem, MOST_NODES).find_below(value) is None, seed
            searched += 1
        except TooLarge:
            continue
    assert searched >= ENOUGH


@pytest.mark.parametrize("engine", ENGINES)
def test_balanced_problem_is_proven_by_the_engine_alone(engine: Engine) -> None:
    problem = balanced()
    start = one_forward_one_backward(problem)
    assert start.makespan_ns == 474 * MS
    report = Remembering()
    begun = time.monotonic()
    outcome = improve(problem, start, settings(engine), report, never)
    assert time.monotonic() - begun < 60
    assert outcome.status == "optimal"
    assert outcome.lower_bound_ns == 453 * MS
    assert outcome.schedule is not None
    assert outcome.schedule.makespan_ns == 453 * MS
    assert outcome.binaries > 100
    assert max(bound for _, bound in report.bounds) == 453 * MS


def test_without_a_start_the_engine_finds_the_optimum_by_itself() -> None:
    outcome = improve(balanced(2, 4, memory=0.5), None, settings(), Remembering(), never)
    assert outcome.status == "optimal"
    assert outcome.schedule is not None
    assert outcome.schedule.makespan_ns == outcome.lower_bound_ns


def test_an_optimal_start_is_not_answered_again() -> None:
    problem = balanced(2, 4)
    first = improve(problem, None, settings(), Remembering(), never)
    again = improve(problem, first.schedule, settings(), Remembering(), never)
    assert again.schedule is None
    assert again.status == "optimal"


def test_a_known_bound_that_is_met_needs_no_engine() -> None:
    problem = balanced(2, 4)
    start = one_forward_one_backward(problem)
    known = settings(lower_bound_ns=start.makespan_ns)
    outcome = improve(problem, start, known, Remembering(), never)
    assert (outcome.status, outcome.rounds) == ("optimal", [])


def test_gap_ends_the_search_early() -> None:
    problem = balanced()
    start = one_forward_one_backward(problem)
    outcome = improve(problem, start, settings(mip_gap=0.5), Remembering(), never)
    assert outcome.status in ("gap", "optimal")
    assert outcome.lower_bound_ns is not None
    assert outcome.lower_bound_ns <= 453 * MS


def test_windows_improve_without_claiming_a_bound() -> None:
    problem = balanced()
    start = sequential_schedule(problem)
    report = Remembering()
    found: list[int] = []
    outcome = improve(
        problem,
        start,
        settings(window=3, time_limit_s=20),
        report,
        never,
        lambda schedule: found.append(schedule.makespan_ns),
    )
    assert outcome.lower_bound_ns is None
    assert report.bounds == []
    assert outcome.schedule is not None
    assert not verify(problem, outcome.schedule)
    assert outcome.schedule.makespan_ns < start.makespan_ns
    assert found == sorted(found, reverse=True)
    assert found[-1] == outcome.schedule.makespan_ns
    assert all(entry["window"] is not None for entry in outcome.rounds)


def test_free_order_keeps_the_order_of_the_start_and_claims_no_bound() -> None:
    problem = replace(
        balanced(2, 3, forward_ns=[18 * MS, 9 * MS, 27 * MS]),
        micro_batch_order=MicroBatchOrder.FREE,
    )
    order = (2, 0, 1)
    renumbered = renumber_problem(problem, order)
    start = renumber_schedule(sequential_schedule(renumbered), inverse(order))
    assert not verify(problem, start)
    found: list[Schedule] = []
    outcome = improve(problem, start, settings(), Remembering(), never, found.append)
    assert outcome.schedule is not None
    assert found[-1] == outcome.schedule
    assert not verify(problem, outcome.schedule)
    assert common_order(problem, outcome.schedule) == order
    assert outcome.lower_bound_ns is None


def test_an_order_that_differs_between_stages_is_only_something_to_beat() -> None:
    problem = replace(
        balanced(2, 3, forward_ns=[18 * MS, 9 * MS, 27 * MS]),
        micro_batch_order=MicroBatchOrder.FREE,
    )
    orders = Orders(
        (
            tuple(Token(op, 0, m) for op in COMPUTE_KINDS for m in (0, 1, 2)),
            tuple(Token(op, 1, m) for op in COMPUTE_KINDS for m in (0, 2, 1)),
        )
    )
    start = time_orders(problem, orders)
    outcome = improve(problem, start, settings(), Remembering(), never)
    assert outcome.schedule is not None
    assert outcome.schedule.makespan_ns < start.makespan_ns
