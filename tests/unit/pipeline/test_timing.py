"""Re-timing orders: as early as they allow, with exclusive links and within memory."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.errors import OrderError
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.feasibility.decide import find_infeasibility, sequential_schedule
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule, Token
from planner.pipeline.timing import Orders, orders_of, time_orders
from planner.pipeline.verify import verify
from tests import referee
from tests.problems import problems, uniform_document, uniform_problem
from tests.random_schedules import random_schedule


def span_of(schedule: Schedule, op: str, stage: int, micro_batch: int) -> tuple[int, int]:
    found = next(
        o for o in schedule.ops if (o.op, o.stage, o.micro_batch) == (op, stage, micro_batch)
    )
    return found.start_ns, found.end_ns


def tokens(text: str, stage: int = 0) -> tuple[Token, ...]:
    """F0 B0 and so on as tokens of one stage."""
    return tuple(Token(word[0], stage, int(word[1:])) for word in text.split())  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(problems(zero_times=False), st.integers(0, 2**32))
def test_timing_the_orders_of_a_schedule_again_is_valid_and_never_later(
    problem: PipelineProblem, seed: int
) -> None:
    assume(find_infeasibility(problem) is None)
    for schedule in (random_schedule(problem, Random(seed)), sequential_schedule(problem)):
        again = time_orders(problem, orders_of(problem, schedule.ops))
        assert verify(problem, again) == []
        assert again.makespan_ns <= schedule.makespan_ns
        before = {op.token: op.start_ns for op in schedule.ops}
        assert {op.token for op in again.ops} == set(before)
        assert all(op.start_ns <= before[op.token] for op in again.ops)


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(0, 2**32))
def test_figures_are_those_of_the_independent_checker(problem: PipelineProblem, seed: int) -> None:
    assume(find_infeasibility(problem) is None)
    schedule = random_schedule(problem, Random(seed))
    violations, facts = referee.check(problem_to_document(problem), schedule.to_document(None))
    assert violations == []
    assert facts["makespan_ns"] == schedule.makespan_ns
    assert facts["steady_span_ns"] == schedule.steady_span_ns
    assert facts["peak_memory_bytes"] == list(schedule.peak_memory_bytes)
    assert facts["offloads"] == schedule.offloads


def test_an_operation_of_no_length_waits_for_the_one_before_it() -> None:
    problem = uniform_problem(devices=1, micro_batches=2, forward_ns=[5, 0])
    schedule = time_orders(problem, Orders((tokens("F0 F1 B0 W0 B1 W1"),)))
    assert verify(problem, schedule) == []


def test_gpipe_on_two_devices_by_hand() -> None:
    problem = uniform_problem(devices=2, micro_batches=2, transfer_ns=1)
    schedule = time_orders(
        problem,
        Orders((tokens("F0 F1 B0 W0 B1 W1"), tokens("F0 F1 B0 W0 B1 W1", stage=1))),
    )
    # Device 1: F0 at 11, F1 at 21, B0 31-43, W0 43-51, B1 51-63, W1 63-71.
    # Device 0: B0 44-56, W0 56-64, B1 64-76, W1 76-84.
    assert span_of(schedule, "F", 1, 1) == (21, 31)
    assert span_of(schedule, "B", 1, 1) == (51, 63)
    assert span_of(schedule, "B", 0, 1) == (64, 76)
    assert schedule.makespan_ns == 84
    assert schedule.steady_span_ns == 84
    assert schedule.peak_memory_bytes == (8, 8)


def test_epilogue_counts_in_makespan_and_span() -> None:
    document = uniform_document(devices=2, micro_batches=1)
    document["devices"][1]["epilogue_ns"] = 100
    schedule = sequential_schedule(read_problem(document))
    again = time_orders(read_problem(document), orders_of(read_problem(document), schedule.ops))
    assert again.makespan_ns == 10 + (10 + 12 + 8) + 100
    assert again.steady_span_ns == (10 + 12 + 8) + 100


def test_a_forward_waits_until_a_free_makes_room() -> None:
    problem = uniform_problem(devices=1, micro_batches=2, limit=6)
    orders = Orders((tokens("F0 B0 F1 W0 B1 W1"),))
    # After B0 2 of 6 bytes are in use: F1's 4 fit at once.
    assert span_of(time_orders(problem, orders), "F", 0, 1) == (22, 32)
    tight = uniform_problem(devices=1, micro_batches=2, limit=5)
    # F1 comes before W0 on the one device, so nothing would ever make room for it.
    with pytest.raises(OrderError):
        time_orders(tight, orders)
    ignored = time_orders(tight, orders, enforce_memory=False)
    assert span_of(ignored, "F", 0, 1) == (22, 32)
    assert ignored.peak_memory_bytes == (6,)
    assert [v.rule for v in verify(tight, ignored)] == ["out of memory"]


@pytest.mark.parametrize(
    "order",
    [
        "B0 F0 W0",
        "F0 W0 B0",
        "F0 B0",
        "F0 B0 W0 W0",
        "F0 B0 W0 F1",
        "F0 R0 B0 W0",
    ],
)
def test_orders_that_cannot_be_executed_are_refused(order: str) -> None:
    with pytest.raises(OrderError):
        time_orders(uniform_problem(devices=1, micro_batches=1), Orders((tokens(order),)))


def test_deadlock_between_devices_is_an_error() -> None:
    problem = uniform_problem(devices=2, micro_batches=2)
    orders = Orders((tokens("F0 B0 W0 F1 B1 W1"), tokens("F0 F1 B0 W0 B1 W1", stage=1)))
    with pytest.raises(OrderError):
        time_orders(problem, orders)


def test_as_many_sequences_as_devices_are_needed() -> None:
    with pytest.raises(OrderError):
        time_orders(uniform_problem(devices=2, micro_batches=1), Orders((tokens("F0 B0 W0"),)))


def offloading_document(**options: Any) -> dict[str, Any]:
    """Two devices with one stage each; F of device 1 ends 10 ns after that of device 0."""
    return uniform_document(
        devices=2, micro_batches=1, offload_bytes=4, offload_ns=20, reload_ns=7, **options
    )


BOTH_OFFLOAD = Orders((tokens("F0 R0 B0 W0"), tokens("F0 R0 B0 W0", stage=1)))


def test_own_links_carry_transfers_at_the_same_time() -> None:
    schedule = time_orders(read_problem(offloading_document()), BOTH_OFFLOAD)
    assert span_of(schedule, "O", 0, 0) == (10, 30)
    assert span_of(schedule, "O", 1, 0) == (20, 40)
    assert span_of(schedule, "R", 0, 0) == (30, 37)
    assert span_of(schedule, "R", 1, 0) == (40, 47)


def test_a_shared_link_carries_one_offload_and_one_reload_at_a_time() -> None:
    document = offloading_document()
    for device in document["devices"]:
        device["host_link"] = "switch"
    schedule = time_orders(read_problem(document), BOTH_OFFLOAD)
    assert span_of(schedule, "O", 0, 0) == (10, 30)
    assert span_of(schedule, "O", 1, 0) == (30, 50)
    assert span_of(schedule, "R", 0, 0) == (30, 37)
    assert verify(read_problem(document), schedule) == []

    document["host_links"] = {"switch": {"duplex": "half"}}
    schedule = time_orders(read_problem(document), BOTH_OFFLOAD)
    transfers = sorted((op.start_ns, op.end_ns) for op in schedule.ops if op.op in ("O", "R"))
    assert all(one[1] <= other[0] for one, other in pairwise(transfers))
    assert verify(read_problem(document), schedule) == []


def test_a_given_channel_order_is_kept() -> None:
    document = offloading_document()
    for device in document["devices"]:
        device["host_link"] = "switch"
    problem = read_problem(document)
    first_1 = {
        problem.channel(0, "O"): (Token("O", 1, 0), Token("O", 0, 0)),
        problem.channel(0, "R"): (Token("R", 1, 0), Token("R", 0, 0)),
    }
    schedule = time_orders(problem, Orders(BOTH_OFFLOAD.compute, first_1))
    assert span_of(schedule, "O", 1, 0) == (20, 40)
    assert span_of(schedule, "O", 0, 0) == (40, 60)


def test_an_offload_waits_for_host_memory() -> None:
    problem = read_problem(offloading_document(hosts=[{"memory_bytes": 7}]))
    schedule = time_orders(problem, BOTH_OFFLOAD)
    assert span_of(schedule, "O", 0, 0) == (10, 30)
    # Device 0's bytes leave the host when its reload ends, at 37.
    assert span_of(schedule, "O", 1, 0) == (37, 57)
    assert schedule.host_peak_memory_bytes == (4,)
    assert verify(problem, schedule) == []
    unlimited = time_orders(problem, BOTH_OFFLOAD, enforce_memory=False)
    assert span_of(unlimited, "O", 1, 0) == (20, 40)
    assert unlimited.host_peak_memory_bytes == (8,)


def test_a_host_that_cannot_take_an_offload_at_all_is_an_error() -> None:
    problem = read_problem(offloading_document(hosts=[{"memory_bytes": 3}]))
    with pytest.raises(OrderError):
        time_orders(problem, BOTH_OFFLOAD)


def test_operations_of_no_length_at_one_instant_are_retimed_in_an_order_that_fits() -> None:
    problem = uniform_problem(
        devices=1,
        micro_batches=2,
        forward_ns=0,
        backward_input_ns=0,
        backward_weight_ns=0,
        activation_bytes=1,
        limit=1,
    )
    schedule = time_orders(problem, Orders((tokens("F0 B0 F1 B1"),)))
    assert time_orders(problem, orders_of(problem, schedule.ops)) == schedule
