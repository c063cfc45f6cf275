"""Recycling: hand-made cases, and random problems larger than those that can be solved."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.bounds.ranked import with_micro_batches_ranked
from planner.pipeline.bounds.stage_memory import StageMemory
from planner.pipeline.documents import read_problem
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from tests.brute_force import objective_ns
from tests.problems import problems, uniform_document, uniform_problem
from tests.random_schedules import random_schedule

WORK = 10 + 12 + 8
ROUND_TRIP = 4 * (10 + 12) + 8


def named_ns(problem: PipelineProblem) -> dict[str, int]:
    return {bound.name: bound.value_ns for bound in lower_bounds(problem)}


def recycling_ns(problem: PipelineProblem) -> int:
    return named_ns(problem)["recycling"]


@settings(max_examples=60, deadline=None)
@given(problems(max_micro_batches=9, memory="tight"), st.integers(0, 2**32))
def test_no_bound_lies_above_a_random_schedule_of_many_micro_batches(
    problem: PipelineProblem, seed: int
) -> None:
    assume(find_infeasibility(problem) is None)
    schedule = random_schedule(problem, Random(seed))
    for bound in lower_bounds(problem):
        assert bound.value_ns <= objective_ns(problem, schedule), bound.name


@pytest.mark.parametrize(("micro_batches", "room"), [(8, 1), (8, 2), (9, 2), (8, 4), (11, 3)])
def test_rounds_of_equal_stages_follow_one_another(micro_batches: int, room: int) -> None:
    """K activations fit and stay until W ends: every K-th F of device 0 waits a round trip, and
    those in between at least their work."""
    problem = uniform_problem(
        devices=4, micro_batches=micro_batches, limit=4 * room, weight_grad_bytes=4
    )
    rounds, rest = divmod(micro_batches - 1, room)
    assert recycling_ns(problem) >= rounds * ROUND_TRIP + rest * WORK + ROUND_TRIP


def test_unequal_micro_batches_recycle_the_room_that_each_frees() -> None:
    """On device 0 F(1) fits beside F(0) but F(2) waits for both W."""
    document = uniform_document(devices=2, micro_batches=3, limit=6, weight_grad_bytes=0)
    document["stages"][0] |= {"activation_bytes": [3, 3, 6], "weight_grad_bytes": [3, 3, 6]}
    problem = read_problem(document)
    second_round = 2 * (10 + 12) + 12 + 8 + 8
    assert recycling_ns(problem) >= second_round + 2 * (10 + 12) + 8


def test_what_can_be_offloaded_need_not_be_waited_for() -> None:
    options = {"devices": 4, "micro_batches": 8, "limit": 4, "weight_grad_bytes": 0}
    held = recycling_ns(uniform_problem(**options))
    away = recycling_ns(uniform_problem(**options, offload_bytes=4, offload_ns=0, reload_ns=0))
    assert away < held


def test_late_bytes_are_recycled_even_where_activations_can_be_offloaded() -> None:
    """Two late W of 4 bytes fill the device: the third B waits for the first W."""
    document = uniform_document(
        devices=1, micro_batches=6, limit=8, weight_grad_bytes=4, offload_bytes=4
    )
    memory = StageMemory(read_problem(document).stages[0], 6)
    assert memory.weights_before_backward(8) == [0, 0, 1, 2, 3, 4]


def test_several_stages_of_a_device_share_its_room() -> None:
    """Both chunks of one micro-batch fill a device: the second chunk's F, and all after it, waits
    for the B of the first chunk of the micro-batch before."""
    problem = uniform_problem(
        devices=2, chunks=2, micro_batches=4, limit=8, backward_weight_ns=0, weight_grad_bytes=0
    )
    assert recycling_ns(problem) == 4 * (10 + 12) + 3 * (2 * 10 + 4 * 12)


def test_weights_wait_for_nothing_on_a_stage_where_some_micro_batch_has_none() -> None:
    document = uniform_document(devices=1, micro_batches=3, limit=8, weight_grad_bytes=4)
    document["stages"][0]["backward_weight_ns"] = [8, 0, 8]
    memory = StageMemory(read_problem(document).stages[0], 3)
    assert memory.late == [0, 0, 0]
    assert memory.weights_before_forward(2, 0) == 0


def test_most_that_can_wait_beside_a_forward() -> None:
    """12 bytes beside 4: three B with their W (60 ns), or two and two W (56), one and four W."""
    problem = uniform_problem(devices=1, micro_batches=12, limit=16)
    memory = StageMemory(problem.stages[0], 12)
    assert memory.most_pending_ns(16, 11) == 3 * (12 + 8)
    assert memory.pending_ns(16) == [0, 20, 40, *[60] * 9]


def test_free_order_of_alike_micro_batches_is_bounded_like_fixed_order() -> None:
    problem = uniform_problem(devices=4, micro_batches=8, limit=8)
    free = replace(problem, micro_batch_order=MicroBatchOrder.FREE)
    assert recycling_ns(free) == recycling_ns(problem)


def test_free_order_of_unlike_micro_batches_counts_the_least_of_each() -> None:
    document = uniform_document(devices=2, micro_batches=2, limit=9)
    document["micro_batch_order"] = "free"
    document["stages"][0] |= {
        "forward_ns": [5, 9],
        "activation_bytes": [6, 8],
        "offload_bytes": [1, 6],
        "weight_grad_bytes": [6, 1],
        "backward_weight_ns": [4, 0],
    }
    problem = read_problem(document)
    ranked = with_micro_batches_ranked(problem)
    assert ranked.alike
    stage = ranked.stages[0]
    assert (stage.forward_ns[0], stage.activation_bytes[0], stage.offload_bytes[0]) == (5, 6, 4)
    assert (stage.backward_weight_ns[0], stage.weight_grad_bytes[0]) == (0, 0)
    assert recycling_ns(problem) <= named_ns(ranked)["recycling"]


def test_operations_of_no_time_hold_nothing_at_the_instant_they_share() -> None:
    document = uniform_document(devices=1, micro_batches=2, limit=8, weight_grad_bytes=2)
    document["stages"][0] |= {
        "forward_ns": 0,
        "backward_input_ns": [0, 12],
        "backward_workspace_bytes": 3,
    }
    memory = StageMemory(read_problem(document).stages[0], 2)
    assert memory.forward_held == [2, 4]
    assert memory.backward_held == [2, 7]
