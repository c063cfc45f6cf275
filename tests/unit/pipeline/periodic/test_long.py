"""Long iterations: what is made of a shorter one, and what is made at once, is valid and short."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.feasibility.decide import find_infeasibility, sequential_schedule
from planner.pipeline.kernel.tables import tables_of
from planner.pipeline.objective import objective_ns
from planner.pipeline.orders import orders_of
from planner.pipeline.periodic import direct, extend
from planner.pipeline.periodic.extend import extended
from planner.pipeline.periodic.long import direct_schedules, extended_schedule, long_schedules
from planner.pipeline.periodic.sequences import sequences_of_orders, time_sequences
from planner.pipeline.periodic.shorten import short_count, with_micro_batches
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.timing import time_orders
from planner.pipeline.verify import verify
from tests.problems import problems, uniform_document, uniform_problem
from tests.random_schedules import random_schedule
from tests.referee import check


@pytest.fixture(autouse=True)
def _short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "PATIENCE", 10)
    monkeypatch.setattr(extend, "INSTANTS", 2)


def never_asked(problem: PipelineProblem) -> Schedule | None:
    raise AssertionError("nothing short to solve")


def direct_schedule(problem: PipelineProblem, **options: Any) -> Schedule | None:
    """The last and best of what is made at once."""
    return _last_and_best(problem, list(direct_schedules(problem, **options)))


def long_schedule(problem: PipelineProblem, *arguments: Any) -> Schedule | None:
    found = list(long_schedules(problem, *arguments))
    return min(found, key=lambda schedule: objective_ns(problem, schedule), default=None)


def _last_and_best(problem: PipelineProblem, found: list[Schedule]) -> Schedule | None:
    values = [objective_ns(problem, schedule) for schedule in found]
    assert values == sorted(values, reverse=True)
    return found[-1] if found else None


def sequential(problem: PipelineProblem) -> Schedule | None:
    return sequential_schedule(problem)


def lower_bound_ns(problem: PipelineProblem) -> int:
    return lower_bounds(problem)[0].value_ns


def pipeline(devices: int, micro_batches: int, **options: Any) -> PipelineProblem:
    return uniform_problem(devices=devices, micro_batches=micro_batches, **options)


@settings(max_examples=15, deadline=None)
@given(problems(max_micro_batches=4), st.integers(0, 2**32), st.sampled_from([1, 2, 3, 12]))
def test_any_schedule_extended_is_complete_and_valid(
    problem: PipelineProblem, seed: int, more: int
) -> None:
    count = problem.micro_batches
    problem = with_micro_batches(problem, count)
    assume(find_infeasibility(problem) is None)
    many = with_micro_batches(problem, count + more)
    short = random_schedule(problem, Random(seed))
    sequences = extended(many, count, short)
    if sequences is not None:
        schedule = time_orders(many, sequences.to_orders())
        assert verify(many, schedule) == []
        timing = time_sequences(tables_of(many), sequences)
        assert timing is not None
        assert timing.objective_ns == objective_ns(many, schedule)


@settings(max_examples=15, deadline=None)
@given(problems(), st.integers(0, 2**32))
def test_sequences_are_timed_like_orders(problem: PipelineProblem, seed: int) -> None:
    assume(find_infeasibility(problem) is None)
    schedule = random_schedule(problem, Random(seed))
    orders = orders_of(problem, schedule.ops)
    sequences = sequences_of_orders(tables_of(problem), orders)
    assert sequences.to_orders().compute == orders.compute
    timing = time_sequences(tables_of(problem), sequences)
    if timing is not None:
        again = time_orders(problem, sequences.to_orders())
        assert timing.objective_ns == objective_ns(problem, again)


@settings(max_examples=10, deadline=None)
@given(problems(max_chunks=1, memory="loose"))
def test_direct_schedules_are_valid_and_no_worse_than_one_at_a_time(
    problem: PipelineProblem,
) -> None:
    problem = with_micro_batches(problem, problem.micro_batches)
    assume(find_infeasibility(problem) is None)
    schedule = direct_schedule(problem)
    assert schedule is not None
    assert verify(problem, schedule) == []
    assert objective_ns(problem, schedule) <= objective_ns(problem, sequential_schedule(problem))


@settings(max_examples=10, deadline=None)
@given(problems(max_chunks=1, memory="tight"))
def test_direct_schedules_stay_within_tight_memory(problem: PipelineProblem) -> None:
    problem = with_micro_batches(problem, problem.micro_batches)
    assume(find_infeasibility(problem) is None)
    schedule = direct_schedule(problem)
    if schedule is not None:
        assert verify(problem, schedule) == []


def test_a_periodic_schedule_is_extended_without_loss() -> None:
    many = pipeline(4, 60, limit=16)
    count = short_count(many)
    assert count is not None
    assert count < 60
    short = direct_schedule(with_micro_batches(many, count))
    assert short is not None
    sequences = extended(many, count, short)
    assert sequences is not None
    timing = time_sequences(tables_of(many), sequences)
    assert timing is not None
    # ZB-H1: m (F + B + W) + (p - 1)(F + B - W).
    assert timing.objective_ns == 60 * 30 + 3 * 14


def test_where_memory_sets_the_pace_the_period_is_what_fits() -> None:
    # 2 of 8 stages' micro-batches fit: a wave of two passes down and up, then the next two.
    many = pipeline(8, 72, limit=8)
    schedule = extended_schedule(many, direct_schedule)
    assert schedule is not None
    assert verify(many, schedule) == []
    whole = direct_schedule(many)
    assert whole is not None
    assert schedule.makespan_ns <= 1.05 * whole.makespan_ns


def test_reloads_are_repeated_with_the_rest() -> None:
    many = pipeline(4, 60, limit=12, offload_bytes=4, offload_ns=5, reload_ns=6, hosts=[{}])
    schedule = extended_schedule(many, direct_schedule)
    assert schedule is not None
    assert schedule.offloads > 20
    violations, facts = check(problem_to_document(many), schedule.to_document(None))
    assert violations == []
    assert facts["makespan_ns"] == schedule.makespan_ns


def test_offloads_make_room_for_the_schedule_without_limits() -> None:
    problem = pipeline(8, 48, limit=20, offload_bytes=4, offload_ns=8, reload_ns=8)
    fast, schedule = direct_schedule(pipeline(8, 48)), direct_schedule(problem)
    assert fast is not None
    assert schedule is not None
    assert schedule.offloads > 0
    violations, _ = check(problem_to_document(problem), schedule.to_document(None))
    assert violations == []
    assert schedule.makespan_ns <= 1.05 * fast.makespan_ns


@pytest.mark.parametrize(
    ("options", "within"),
    [
        ({"limit": 32 * 4}, 1.0),
        ({"limit": 16 * 4}, 1.03),
        ({"limit": 16 * 4, "offload_bytes": 3, "offload_ns": 11, "reload_ns": 11}, 1.01),
        ({"limit": 48 * 4, "transfer_ns": 1}, 1.02),
    ],
)
def test_a_large_iteration_comes_close_to_its_bound(options: dict[str, Any], within: float) -> None:
    problem = pipeline(32, 128, **options)
    bound_ns = lower_bound_ns(problem)
    schedule = direct_schedule(problem, lower_bound_ns=round(bound_ns * within))
    assert schedule is not None
    assert verify(problem, schedule) == []
    assert schedule.makespan_ns <= within * bound_ns


def test_the_better_of_both_is_taken() -> None:
    problem = pipeline(4, 60, limit=16)
    schedule = long_schedule(problem, sequential)
    assert schedule is not None
    # 1F1B takes (m + p - 1)(F + B + W).
    assert schedule.makespan_ns <= 63 * 30
    chunks = uniform_problem(devices=2, micro_batches=60, chunks=2)
    extended_only = long_schedule(chunks, sequential)
    assert extended_only is not None
    assert verify(chunks, extended_only) == []


def test_no_method_where_micro_batches_differ_or_are_few() -> None:
    document = uniform_document(devices=2, micro_batches=60)
    assert document["micro_batches"] == 60
    document["stages"][0]["forward_ns"] = [10] * 59 + [11]
    assert long_schedule(read_problem(document), never_asked) is None
    assert extended_schedule(pipeline(4, 12), never_asked) is None
    assert long_schedule(uniform_problem(devices=2, micro_batches=8, chunks=2), never_asked) is None


def test_told_to_stop_it_still_has_something_at_once() -> None:
    problem = pipeline(8, 64, limit=32)
    schedule = long_schedule(problem, never_asked, lambda: True)
    assert schedule is not None
    assert verify(problem, schedule) == []


def test_a_short_problem_is_the_long_one_with_fewer_micro_batches() -> None:
    many = pipeline(4, 60, limit=16)
    assert with_micro_batches(many, 24) == pipeline(4, 24, limit=16)
    assert with_micro_batches(with_micro_batches(many, 24), 60) == many
    count = short_count(many)
    assert count is not None
    assert np.gcd(60 - count, 12) == 12
