"""Schedules carried over to problems of the same shape, and started late."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.errors import OrderError
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.feasibility.decide import find_infeasibility, sequential_schedule
from planner.pipeline.late_starts import start_late
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.repair import adapt
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify
from tests import referee
from tests.problems import problems, uniform_document, uniform_problem
from tests.random_schedules import random_schedule

CHANGEABLE = ("forward_ns", "backward_input_ns", "backward_weight_ns", "activation_bytes")
RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ALSO_CHANGEABLE = ("weight_grad_bytes", "backward_workspace_bytes", "offload_ns", "reload_ns")


def ops_of(schedule: Schedule) -> list[dict[str, Any]]:
    ops: list[dict[str, Any]] = schedule.to_document(None)["ops"]
    return ops


@st.composite
def changed_problems(draw: st.DrawFn, problem: PipelineProblem) -> PipelineProblem:
    """A problem of the same devices and stages with other times, sizes and limits."""
    document = problem_to_document(problem)

    def other(value: int | list[int]) -> int | list[int]:
        if isinstance(value, list):
            return [draw(st.integers(0, 2 * entry + 1)) for entry in value]
        return draw(st.integers(0, 2 * value + 1))

    for stage in document["stages"]:
        for name in (*CHANGEABLE, *ALSO_CHANGEABLE):
            if draw(st.booleans()):
                stage[name] = other(stage.get(name, 0))
        if draw(st.booleans()):
            # Fits into any activation, so that the document stays valid.
            stage["offload_bytes"] = 0
    for stage, new in zip(problem.stages, document["stages"], strict=True):
        size = new.get("activation_bytes", 0)
        sizes = size if isinstance(size, list) else [size] * problem.micro_batches
        kept = new.get("offload_bytes", 0)
        if kept != 0:
            wanted = kept if isinstance(kept, list) else [kept] * problem.micro_batches
            new["offload_bytes"] = [min(a, b) for a, b in zip(wanted, sizes, strict=True)]
        elif any(stage.offload_bytes) and draw(st.booleans()):
            new["offload_bytes"] = sizes
    for device in document["devices"]:
        if draw(st.booleans()):
            device["activation_memory_bytes"] = draw(st.integers(0, 40))
    for host in document.get("hosts", []):
        if draw(st.booleans()):
            host["memory_bytes"] = draw(st.integers(0, 24))
    return read_problem(document)


@RELAXED
@given(st.data(), problems(), st.integers(0, 2**32))
def test_a_schedule_fits_another_problem_of_its_shape_wherever_one_exists(
    data: st.DataObject, problem: PipelineProblem, seed: int
) -> None:
    if find_infeasibility(problem) is not None:
        return
    other = data.draw(changed_problems(problem))
    ops = ops_of(random_schedule(problem, Random(seed)))
    if find_infeasibility(other) is not None:
        with pytest.raises(OrderError):
            adapt(other, ops)
        return
    schedule = adapt(other, ops)
    assert verify(other, schedule) == []


@RELAXED
@given(problems(), st.integers(0, 2**32))
def test_a_schedule_of_the_same_problem_comes_back_no_worse(
    problem: PipelineProblem, seed: int
) -> None:
    if find_infeasibility(problem) is not None:
        return
    schedule = random_schedule(problem, Random(seed))
    again = adapt(problem, ops_of(schedule))
    assert verify(problem, again) == []
    assert objective_ns(problem, again) <= objective_ns(problem, schedule)


@RELAXED
@given(problems(), st.integers(0, 2**32))
def test_the_referee_passes_what_was_started_late(problem: PipelineProblem, seed: int) -> None:
    if find_infeasibility(problem) is not None:
        return
    schedule = random_schedule(problem, Random(seed))
    late = start_late(problem, schedule)
    document = problem_to_document(problem)
    assert referee.check(document, late.to_document(None))[0] == []
    assert late.steady_span_ns <= schedule.steady_span_ns
    assert late.makespan_ns <= schedule.makespan_ns


def test_a_late_start_closes_the_gap_after_an_early_forward() -> None:
    # Device 1 could run its first forward at 10, but nothing of it is needed before 30.
    problem = uniform_problem(devices=2, micro_batches=1, backward_weight_ns=0)
    early = [
        TimedOp("F", 0, 0, 0, 10),
        TimedOp("F", 1, 0, 10, 20),
        TimedOp("B", 1, 0, 30, 42),
        TimedOp("B", 0, 0, 42, 54),
    ]
    late = start_late(problem, sequential_schedule(problem))
    assert late.steady_span_ns == 44
    late = start_late(problem, schedule_from_ops(problem, early))
    starts = {op.token[:2]: op.start_ns for op in late.ops}
    assert starts == {("F", 0): 10, ("F", 1): 20, ("B", 1): 30, ("B", 0): 42}


def gpipe_ops(devices: int, micro_batches: int) -> list[dict[str, Any]]:
    """All forwards before the first backward, which holds every activation."""
    problem = uniform_problem(devices=devices, micro_batches=micro_batches)
    ops = []
    for m in range(micro_batches):
        for s in range(devices):
            start = (m + s) * 10
            ops.append(TimedOp("F", s, m, start, start + 10))
            back = 1000 + (m + devices - s) * 20
            ops.append(TimedOp("B", s, m, back, back + 12))
            ops.append(TimedOp("W", s, m, back + 12, back + 20))
    schedule = schedule_from_ops(problem, ops)
    assert verify(problem, schedule) == []
    return ops_of(schedule)


def test_orders_that_fit_no_more_keep_the_devices_busy_within_the_limit() -> None:
    tight = uniform_problem(devices=4, micro_batches=8, limit=16)
    schedule = adapt(tight, gpipe_ops(4, 8))
    assert verify(tight, schedule) == []
    assert max(schedule.peak_memory_bytes) <= 16
    # One micro-batch after the other would take 8 x 120 ns; four in flight overlap.
    assert objective_ns(tight, schedule) < 8 * 120 // 2


def test_offloads_are_added_where_only_they_make_room() -> None:
    tight = uniform_document(
        devices=2, micro_batches=4, limit=8, offload_bytes=4, offload_ns=1, reload_ns=1
    )
    v_shape = uniform_document(
        devices=2, micro_batches=4, placement=[0, 1, 1, 0], limit=6, offload_bytes=4
    )
    for document in (tight, v_shape):
        problem = read_problem(document)
        plain = read_problem({**document, "devices": [{}, {}]})
        schedule = adapt(problem, ops_of(random_schedule(plain, Random(1))))
        assert verify(problem, schedule) == []
    assert schedule.offloads > 0


def test_offloads_go_where_nothing_can_be_offloaded_any_more() -> None:
    able = uniform_problem(micro_batches=3, offload_bytes=4, offload_ns=1, reload_ns=1)
    drawn = (random_schedule(able, Random(seed)) for seed in range(20))
    ops = ops_of(next(schedule for schedule in drawn if schedule.offloads))
    unable = uniform_problem(micro_batches=3)
    assert adapt(unable, ops).offloads == 0


def test_weights_split_off_a_fused_backward_follow_it() -> None:
    fused = uniform_problem(micro_batches=3, backward_weight_ns=0, weight_grad_bytes=0)
    split = uniform_problem(micro_batches=3)
    schedule = adapt(split, ops_of(random_schedule(fused, Random(3))))
    assert verify(split, schedule) == []


def test_a_schedule_of_another_shape_is_refused() -> None:
    ops = ops_of(sequential_schedule(uniform_problem(devices=2, micro_batches=2)))
    with pytest.raises(OrderError, match="stage 1"):
        adapt(uniform_problem(devices=1, micro_batches=2), ops)
    with pytest.raises(OrderError, match="has no F"):
        adapt(uniform_problem(devices=2, micro_batches=3), ops)


def test_told_to_stop_it_answers_with_what_fits() -> None:
    tight = uniform_problem(devices=4, micro_batches=8, limit=16)
    schedule = adapt(tight, gpipe_ops(4, 8), should_stop=lambda: True)
    assert schedule == sequential_schedule(tight)
