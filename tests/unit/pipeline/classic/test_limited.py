"""Starts within memory limits are valid, and good where 1F1B does not fit."""

from __future__ import annotations

from hypothesis import given, settings

from planner.pipeline.classic import schedules
from planner.pipeline.classic.limited import memory_limited_starts
from planner.pipeline.classic.timed import timed
from planner.pipeline.documents import problem_to_document
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.timing import time_orders
from planner.pipeline.verify import verify
from tests import referee
from tests.problems import problems, uniform_problem

# The 6.2B profile of the Zero Bubble authors: 8 stages, 32 micro-batches, microseconds; memory
# as measured, 34 units of which 32 stay for W.
PROFILE = {
    "devices": 8,
    "micro_batches": 32,
    "transfer_ns": 527,
    "forward_ns": 29_718,
    "backward_input_ns": 29_444,
    "backward_weight_ns": 19_927,
    "activation_bytes": 34,
    "weight_grad_bytes": 32,
}


@settings(max_examples=60, deadline=None)
@given(problem=problems(offload=False))
def test_starts_keep_every_rule(problem: PipelineProblem) -> None:
    for _, orders in memory_limited_starts(problem, budget_operations=0):
        schedule = time_orders(problem, orders)
        assert verify(problem, schedule) == []
        violations, _ = referee.check(
            problem_to_document(problem), schedule.to_document(lower_bound_ns=None)
        )
        assert violations == []


def test_each_start_is_another_order_and_the_best_comes_first() -> None:
    problem = uniform_problem(**PROFILE, limit=6 * 34)
    starts = memory_limited_starts(problem, budget_operations=500_000)
    assert len({orders.compute for _, orders in starts}) == len(starts) > 1
    lengths = [timed(problem, orders).makespan_ns for _, orders in starts]
    assert lengths == sorted(lengths)
    assert starts == memory_limited_starts(problem, budget_operations=500_000)


def test_half_and_three_quarters_of_the_memory_of_1f1b() -> None:
    """The Zero Bubble authors' heuristic takes 9801 and 6068 ms."""
    for held, milliseconds in ((4, 4590), (6, 3325)):
        problem = uniform_problem(**PROFILE, limit=held * 34)
        _, orders = memory_limited_starts(problem, budget_operations=500_000)[0]
        assert time_orders(problem, orders).makespan_ns <= milliseconds * 1000


def test_two_chunks_in_three_quarters_of_the_memory() -> None:
    problem = uniform_problem(devices=4, chunks=2, micro_batches=12, limit=4 * 6)
    _, orders = memory_limited_starts(problem, budget_operations=500_000)[0]
    schedule = time_orders(problem, orders)
    assert verify(problem, schedule) == []
    grouped = schedules.grouped_interleaved_schedule(problem, 2, 2)
    assert max(grouped.peak_memory_bytes) <= 4 * 6
    assert schedule.makespan_ns <= grouped.makespan_ns


def test_no_start_where_nothing_fits_without_offloads() -> None:
    assert memory_limited_starts(uniform_problem(limit=3)) == []


def test_asked_to_stop_there_is_no_start() -> None:
    assert memory_limited_starts(uniform_problem(), lambda: True) == []
