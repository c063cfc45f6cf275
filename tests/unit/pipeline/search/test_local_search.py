"""The local search: valid, never worse, reproducible, and optimal where that can be checked."""

from __future__ import annotations

import time
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import OrderError
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.search.local_search import SearchSettings, local_search
from planner.pipeline.verify import verify
from planner.progress import never
from tests.benchmark_problems import benchmark_problem
from tests.brute_force import least_objective
from tests.problems import problems
from tests.random_schedules import random_schedule


def moves(count: int, *, seed: int = 0, good_ns: int = 0, threads: int = 2) -> SearchSettings:
    """A budget of moves."""
    return SearchSettings(
        threads=threads, seed=seed, good_ns=good_ns, deadline=float("inf"), iterations=count
    )


def starts_of(problem: PipelineProblem, seed: int) -> list[Schedule]:
    random = Random(seed)
    return [random_schedule(problem, random) for _ in range(2)]


@given(problems(zero_times=False), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_every_schedule_is_valid_and_better_than_the_last(
    problem: PipelineProblem, seed: int
) -> None:
    try:
        starts = starts_of(problem, seed)
    except OrderError:
        return
    found: list[Schedule] = []
    outcome = local_search(problem, starts, moves(600, seed=seed), never, found.append)
    values = [objective_ns(problem, schedule) for schedule in found]
    best = min(objective_ns(problem, start) for start in starts)
    assert values == sorted(set(values), reverse=True)
    assert all(value < best for value in values)
    assert all(verify(problem, schedule) == [] for schedule in found)
    assert outcome.schedule == (found[-1] if found else None)


@given(
    problems(
        max_devices=2,
        max_chunks=1,
        max_micro_batches=2,
        hosts=False,
        objective="makespan",
        zero_times=False,
    )
)
@settings(max_examples=40, deadline=None)
def test_tiny_problems_are_solved_to_the_optimum(problem: PipelineProblem) -> None:
    optimum = least_objective(problem)
    if optimum is None:
        return
    starts = starts_of(problem, 1)
    outcome = local_search(problem, starts, moves(4000, good_ns=optimum), never, lambda s: None)
    best = min(objective_ns(problem, s) for s in [*starts, *filter(None, [outcome.schedule])])
    # Channels serve first come, first served: with shared ones the optimum may be out of reach.
    shared = any(device.host_link is not None for device in problem.devices)
    assert best >= optimum
    if not shared and not any(problem.is_half_duplex(s) for s in range(len(problem.stages))):
        assert best == optimum


def test_a_seed_and_a_budget_give_the_same_answer_again() -> None:
    problem = benchmark_problem("uneven-8x16-1f1b-memory")
    starts = starts_of(problem, 5)

    def solve(seed: int) -> Schedule | None:
        return local_search(problem, starts, moves(4000, seed=seed), never, lambda s: None).schedule

    assert solve(3) == solve(3)
    assert solve(3) != solve(4)


@pytest.mark.parametrize("name", ["uneven-8x16-1f1b-memory", "offload-8x16-shared-switch"])
def test_a_wish_to_stop_is_heard(name: str) -> None:
    problem = benchmark_problem(name)
    asked = time.monotonic() + 0.5
    endless = SearchSettings(threads=2, seed=0, good_ns=0, deadline=asked + 600)
    local_search(problem, starts_of(problem, 0), endless, lambda: time.monotonic() > asked, bool)
    assert time.monotonic() < asked + 30


def test_a_free_micro_batch_order_is_used() -> None:
    """Long micro-batches are better not left to the end."""
    problem = benchmark_problem("varlen-4x12", micro_batch_order="free")
    fixed = 634_430_000
    outcome = local_search(problem, starts_of(problem, 0), moves(400_000), never, lambda s: None)
    assert outcome.schedule is not None
    assert verify(problem, outcome.schedule) == []
    assert outcome.schedule.makespan_ns < fixed


def test_uneven_stages_reach_the_best_value_known() -> None:
    problem = benchmark_problem("uneven-8x16-1f1b-memory")
    outcome = local_search(problem, starts_of(problem, 0), moves(600_000), never, lambda s: None)
    assert outcome.schedule is not None
    assert outcome.schedule.makespan_ns <= 1_110_000_000


def test_steady_spans_are_searched_too() -> None:
    unlimited = [{}] * 4
    problem = benchmark_problem(
        "balanced-4x8-1f1b-memory", objective="steady_span", devices=unlimited
    )
    starts = starts_of(problem, 0)
    outcome = local_search(problem, starts, moves(200_000), never, lambda s: None)
    assert outcome.schedule is not None
    assert verify(problem, outcome.schedule) == []
    # The first device waits for its first micro-batch to come back: a critical path of 411 ms.
    assert outcome.schedule.steady_span_ns == lower_bounds(problem)[0].value_ns == 411_000_000


def test_a_search_that_has_no_time_left_ends_at_once() -> None:
    problem = benchmark_problem("uneven-8x16-1f1b-memory")
    over = SearchSettings(threads=2, seed=0, good_ns=0, deadline=time.monotonic() - 1)
    outcome = local_search(problem, starts_of(problem, 0), over, never, lambda s: None)
    assert outcome.schedule is None
    hardly = SearchSettings(threads=2, seed=0, good_ns=0, deadline=time.monotonic() + 0.01)
    local_search(problem, starts_of(problem, 0), hardly, never, lambda s: None)
