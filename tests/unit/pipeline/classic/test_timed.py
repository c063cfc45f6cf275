"""Array timing gives exactly what the simulation gives, and the same figures."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import OrderError
from planner.pipeline.classic.timed import from_schedule, timed
from planner.pipeline.objective import objective_ns
from planner.pipeline.orders import Orders
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.timing import orders_of, time_orders
from tests.problems import problems, uniform_problem
from tests.random_schedules import random_schedule

seeds = st.integers(0, 2**32)


@settings(max_examples=100, deadline=None)
@given(problem=problems(offload=False, memory="none"), seed=seeds)
def test_equal_to_the_simulation(problem: PipelineProblem, seed: int) -> None:
    orders = orders_of(problem, random_schedule(problem, Random(seed)).ops)
    expected = time_orders(problem, orders, enforce_memory=False)
    found = timed(problem, orders)
    assert set(found.schedule.ops) == set(expected.ops)
    assert found.makespan_ns == expected.makespan_ns
    assert found.steady_span_ns == expected.steady_span_ns
    assert found.objective_ns == objective_ns(problem, expected)
    assert found.peak_memory_bytes == expected.peak_memory_bytes


@settings(max_examples=100, deadline=None)
@given(problem=problems(offload=False, memory="none"), seed=seeds)
def test_deadlocks_are_those_of_the_simulation(problem: PipelineProblem, seed: int) -> None:
    random = Random(seed)
    sequences = [list(x) for x in orders_of(problem, random_schedule(problem, random).ops).compute]
    for sequence in sequences:
        if len(sequence) > 1:
            k = random.randrange(len(sequence) - 1)
            sequence[k], sequence[k + 1] = sequence[k + 1], sequence[k]
    orders = Orders(tuple(map(tuple, sequences)))
    try:
        expected = time_orders(problem, orders, enforce_memory=False)
    except OrderError:
        with pytest.raises(OrderError):
            timed(problem, orders)
        return
    assert set(timed(problem, orders).schedule.ops) == set(expected.ops)


@settings(max_examples=100, deadline=None)
@given(problem=problems(), seed=seeds)
def test_figures_of_schedules_with_offloads(problem: PipelineProblem, seed: int) -> None:
    try:
        schedule = random_schedule(problem, Random(seed))
    except OrderError:
        return
    found = from_schedule(problem, schedule)
    assert set(found.schedule.ops) == set(schedule.ops)
    assert found.makespan_ns == schedule.makespan_ns
    assert found.steady_span_ns == schedule.steady_span_ns
    assert found.peak_memory_bytes == schedule.peak_memory_bytes
    assert found.host_peak_memory_bytes == schedule.host_peak_memory_bytes
    assert found.offloads == schedule.offloads


@pytest.mark.parametrize("change", ["lacks", "repeats"])
def test_incomplete_orders_are_refused(change: str) -> None:
    problem = uniform_problem(devices=2, micro_batches=3)
    orders = orders_of(problem, random_schedule(problem, Random(0)).ops)
    first, *others = orders.compute
    first = first[:-1] if change == "lacks" else (*first[:-1], first[0])
    with pytest.raises(OrderError):
        timed(problem, Orders((first, *others)))
