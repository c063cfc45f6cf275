"""The classic schedules have the lengths that their publications and measurements give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.pipeline.classic import schedules
from planner.pipeline.classic.offload import with_offloads
from planner.pipeline.classic.placement import interleaved, v_shape
from planner.pipeline.classic.timed import TimedClassic
from planner.pipeline.documents import problem_to_document
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.verify import verify
from tests import referee
from tests.problems import uniform_problem

F, B, W = 100, 120, 80
SHAPES = [(1, 1), (1, 5), (2, 4), (3, 7), (4, 8), (4, 6), (5, 3), (8, 32)]

# The 6.2B profile of the Zero Bubble authors: 8 stages, 32 micro-batches, microseconds.
PROFILE_F, PROFILE_B, PROFILE_W, PROFILE_C = 29_718, 29_444, 19_927, 527
ACTIVATION = 4


def uniform(devices: int, micro_batches: int, c: int = 0, w: int = W) -> PipelineProblem:
    return uniform_problem(
        devices=devices,
        micro_batches=micro_batches,
        transfer_ns=c,
        forward_ns=F,
        backward_input_ns=B,
        backward_weight_ns=w,
    )


def profile(devices: int = 8, micro_batches: int = 32) -> PipelineProblem:
    """All of an activation stays until W ends, as published peaks are counted."""
    return uniform_problem(
        devices=devices,
        micro_batches=micro_batches,
        transfer_ns=PROFILE_C,
        forward_ns=PROFILE_F,
        backward_input_ns=PROFILE_B,
        backward_weight_ns=PROFILE_W,
        activation_bytes=ACTIVATION,
        weight_grad_bytes=ACTIVATION,
    )


def chunked(devices: int, micro_batches: int, chunks: int, **stage: int) -> PipelineProblem:
    """Chunks of F, B and W that hold one byte from F's start to W's end."""
    fields = {"forward_ns": F, "backward_input_ns": B, "backward_weight_ns": W, **stage}
    return uniform_problem(
        devices=devices,
        micro_batches=micro_batches,
        chunks=chunks,
        activation_bytes=1,
        weight_grad_bytes=1,
        **fields,
    )


@pytest.mark.parametrize(("p", "m"), SHAPES)
@pytest.mark.parametrize("c", [0, 3])
def test_gpipe(p: int, m: int, c: int) -> None:
    schedule = schedules.gpipe_schedule(uniform(p, m, c))
    assert schedule.makespan_ns == (m + p - 1) * (F + B + W) + 2 * (p - 1) * c
    assert schedule.peak_memory_bytes == (4 * m,) * p


@pytest.mark.parametrize(("p", "m"), SHAPES)
@pytest.mark.parametrize("c", [0, 3])
def test_one_forward_one_backward(p: int, m: int, c: int) -> None:
    schedule = schedules.one_forward_one_backward_schedule(uniform(p, m, c))
    hops = (p - 1) + (m - 1) * (p - 1) // p
    assert schedule.makespan_ns == (m + p - 1) * (F + B + W) + 2 * c * hops
    assert schedule.peak_memory_bytes == tuple(4 * min(m, p - s) for s in range(p))


@pytest.mark.parametrize(("p", "m"), [(2, 4), (2, 8), (4, 8), (4, 16), (8, 32)])
@pytest.mark.parametrize("c", [0, 3])
def test_interleaved(p: int, m: int, c: int) -> None:
    problem = interleaved(uniform(p, m, c))
    schedule = schedules.interleaved_schedule(problem, 2)
    total = F + B + W
    assert schedule.makespan_ns == m * total + (p - 1) * total // 2 + 2 * (2 * p - 1) * c
    # Chunks of 2 bytes: min(mv, 2(p - s - 1) + (v - 1)p + 1).
    assert schedule.peak_memory_bytes == tuple(
        2 * min(2 * m, 2 * (p - s - 1) + p + 1) for s in range(p)
    )


@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("m", range(1, 12))
@pytest.mark.parametrize("chunks", [2, 3])
def test_interleaved_takes_any_number_of_micro_batches(p: int, m: int, chunks: int) -> None:
    problem = uniform_problem(devices=p, micro_batches=m, chunks=chunks, transfer_ns=1)
    schedule = schedules.interleaved_schedule(problem, chunks)
    assert verify(problem, schedule.schedule) == []
    work = 30 * m * chunks
    assert schedule.makespan_ns <= work + (p - 1) * 60 * (chunks + 1) + 4 * m * p * chunks


@pytest.mark.parametrize(("p", "m"), [(1, 4), (2, 4), (3, 7), (4, 8), (8, 32)])
@pytest.mark.parametrize("c", [0, 3])
@pytest.mark.parametrize("w", [W, F])
def test_zero_bubble_h1(p: int, m: int, c: int, w: int) -> None:
    schedule = schedules.zero_bubble_h1_schedule(uniform(p, m, c, w))
    assert schedule.makespan_ns == m * (F + B + w) + (p - 1) * (F + B - w + 4 * c)
    assert max(schedule.peak_memory_bytes) <= 4 * p


def test_zero_bubble_h1_serves_devices_with_several_stages() -> None:
    problem = v_shape(uniform(2, 4))
    assert verify(problem, schedules.zero_bubble_h1_schedule(problem).schedule) == []


@pytest.mark.parametrize(("p", "m"), [(1, 4), (2, 6), (4, 12), (8, 32)])
def test_zero_bubble_h2(p: int, m: int) -> None:
    schedule = schedules.zero_bubble_h2_schedule(uniform(p, m))
    assert schedule.makespan_ns == m * (F + B + W) + (p - 1) * F
    assert max(schedule.peak_memory_bytes) <= 4 * (2 * p - 1)


@pytest.mark.parametrize(("p", "m"), [(2, 6), (3, 9), (4, 8), (4, 12), (8, 32)])
def test_zero_bubble_v_meets_its_bound_for_equal_times(p: int, m: int) -> None:
    problem = v_shape(
        uniform_problem(
            devices=p,
            micro_batches=m,
            forward_ns=20,
            backward_input_ns=20,
            backward_weight_ns=20,
            activation_bytes=4,
            weight_grad_bytes=4,
        )
    )
    schedule = schedules.zero_bubble_v_schedule(problem)
    assert schedule.makespan_ns == 60 * m + (p - 1) * 10
    assert max(schedule.peak_memory_bytes) <= 4 * p


@pytest.mark.parametrize("chunks", [2, 3, 4])
@pytest.mark.parametrize(("p", "rounds"), [(2, 1), (2, 3), (3, 2), (4, 2), (5, 3), (8, 2)])
def test_grouped_interleaved(p: int, rounds: int, chunks: int) -> None:
    m = p * rounds
    schedule = schedules.grouped_interleaved_schedule(chunked(p, m, chunks), chunks)
    assert schedule.makespan_ns == m * chunks * (F + B + W) + (p - 1) * (F + B)
    assert max(schedule.peak_memory_bytes) == p * chunks


@pytest.mark.parametrize("chunks", [2, 3, 4])
@pytest.mark.parametrize(("p", "m"), [(2, 4), (4, 8), (4, 10), (6, 12), (8, 32)])
def test_half_grouped_interleaved(p: int, m: int, chunks: int) -> None:
    g = p // 2
    schedule = schedules.grouped_interleaved_schedule(chunked(p, m, chunks), chunks, g)
    saved = (p - g) * (chunks - 1)
    assert schedule.makespan_ns == (
        m * chunks * (F + B + W) + (p - 1) * (F + B) + saved * (F + B - W)
    )
    assert max(schedule.peak_memory_bytes) == p * chunks - saved


@pytest.mark.parametrize("chunks", [2, 3])
@pytest.mark.parametrize("p", [2, 3, 5, 8])
def test_any_group_keeps_its_published_peak(p: int, chunks: int) -> None:
    for m in (1, p - 1, p + 1, 3 * p + 2):
        problem = chunked(p, m, chunks)
        for g in range((p + 1) // 2, p + 1):
            schedule = schedules.grouped_interleaved_schedule(problem, chunks, g)
            assert verify(problem, schedule.schedule) == []
            assert max(schedule.peak_memory_bytes) <= g * (chunks - 1) + p


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 6, 8, 13, 16])
@pytest.mark.parametrize("rounds", [1, 3])
def test_v_schedules_keep_their_published_peaks(p: int, rounds: int) -> None:
    problem = v_shape(profile(p, p * rounds))
    half, least = schedules.v_half_schedule(problem), schedules.v_min_schedule(problem)
    assert verify(problem, half.schedule) == []
    assert verify(problem, least.schedule) == []
    assert max(half.peak_memory_bytes) <= ACTIVATION * ((p + 2) // 2)
    assert max(least.peak_memory_bytes) <= ACTIVATION * ((p + 4) // 3)


def interleaved_in_groups(group: int) -> Callable[[PipelineProblem], TimedClassic]:
    return lambda problem: schedules.grouped_interleaved_schedule(interleaved(problem), 2, group)


@pytest.mark.parametrize(
    ("p", "m", "make", "milliseconds", "peak"),
    [
        (8, 32, interleaved_in_groups(8), 2750, 1.0),
        (8, 32, interleaved_in_groups(4), 2832, 0.75),
        (8, 32, interleaved_in_groups(1), 2915, 0.8125),
        (8, 32, lambda problem: schedules.v_half_schedule(v_shape(problem)), 2852, 0.625),
        (8, 32, lambda problem: schedules.v_min_schedule(v_shape(problem)), 3342, 0.5),
        (16, 64, lambda problem: schedules.v_half_schedule(v_shape(problem)), 5809, 0.5625),
        (16, 64, lambda problem: schedules.v_min_schedule(v_shape(problem)), 6785, 0.375),
    ],
    ids=["GIS", "GIS-H", "PO", "V-Half", "V-Min", "V-Half of 16", "V-Min of 16"],
)
def test_measured_lengths_and_peaks_of_the_public_profile(
    p: int,
    m: int,
    make: Callable[[PipelineProblem], TimedClassic],
    milliseconds: int,
    peak: float,
) -> None:
    schedule = make(profile(p, m))
    assert round(schedule.makespan_ns / 1000) in (milliseconds - 1, milliseconds)
    assert max(schedule.peak_memory_bytes) == peak * p * ACTIVATION


@pytest.mark.parametrize(
    ("k", "chunks", "group", "offloaded", "milliseconds", "peak"),
    [
        (0.5, 2, 8, 1, 2779, 0.5),
        (0.5, 2, 8, 2, 2779, 0.25),
        (0.5, 2, 4, 2, 2832, 0.215),
        (0.5, 4, 4, 4, 2785, 0.094),
        (0.5, 4, 1, 4, 2916, 0.094),
        (1.0, 4, 8, 2, 2762, 0.5),
        (1.0, 4, 4, 3, 2831, 0.25),
        (1.0, 2, 1, 1, 2923, 0.375),
        (1.0, 4, 1, 2, 2928, 0.2813),
        (1.0, 4, 1, 4, 3140, 0.156),
        (1.4, 4, 8, 2, 2760, 0.56),
        (1.4, 4, 4, 2, 2827, 0.375),
        (1.4, 4, 1, 2, 3039, 0.31),
        (1.4, 4, 1, 3, 3348, 0.22),
    ],
)
def test_offloads_are_no_worse_than_measured(
    k: float, chunks: int, group: int, offloaded: int, milliseconds: int, peak: float
) -> None:
    """Against replays of the authors' orders, one link of full duplex per device."""
    work = PROFILE_F + PROFILE_B + PROFILE_W
    problem = uniform_problem(
        devices=8,
        micro_batches=32,
        chunks=chunks,
        transfer_ns=PROFILE_C,
        forward_ns=PROFILE_F // chunks,
        backward_input_ns=PROFILE_B // chunks,
        backward_weight_ns=PROFILE_W // chunks,
        activation_bytes=1,
        weight_grad_bytes=1,
        offload_bytes=1,
        offload_ns=int(k * work / 2 / chunks),
        reload_ns=int(k * work / 2 / chunks),
    )
    schedule = schedules.grouped_interleaved_schedule(problem, chunks, group)
    hidden = with_offloads(schedule, schedules.first_chunks(problem, chunks, offloaded))
    assert verify(problem, hidden.schedule) == []
    assert hidden.makespan_ns == schedule.makespan_ns <= (milliseconds + 1) * 1000
    assert max(hidden.peak_memory_bytes) <= peak * 8 * chunks


@pytest.mark.parametrize(
    ("make", "milliseconds"),
    [
        (lambda p: schedules.one_forward_one_backward_schedule(p), 3120),
        (lambda p: schedules.interleaved_schedule(interleaved(p), 2), 2823),
        (lambda p: schedules.zero_bubble_h1_schedule(p), 2820),
        (lambda p: schedules.zero_bubble_h2_schedule(p), 2743),
    ],
    ids=["1F1B", "interleaved", "ZB-H1", "ZB-H2"],
)
def test_measured_lengths_of_the_public_profile(make: object, milliseconds: int) -> None:
    assert callable(make)
    assert round(make(profile()).makespan_ns / 1000) == milliseconds


def test_zero_bubble_v_on_the_public_profile() -> None:
    problem = v_shape(profile())
    schedule = schedules.zero_bubble_v_schedule(problem)
    bound = 32 * (PROFILE_F + PROFILE_B + PROFILE_W) + 7 * (PROFILE_F // 2 + PROFILE_C)
    assert bound <= schedule.makespan_ns <= 2_653_000
    assert verify(problem, schedule.schedule) == []


def test_split_after_fused_timing_is_valid_for_the_problem_itself() -> None:
    problem = uniform_problem(devices=3, micro_batches=5, weight_grad_bytes=7, transfer_ns=2)
    for make in (schedules.gpipe_schedule, schedules.one_forward_one_backward_schedule):
        schedule = make(problem)
        assert verify(problem, schedule.schedule) == []
        violations, _ = referee.check(
            problem_to_document(problem), schedule.schedule.to_document(lower_bound_ns=None)
        )
        assert violations == []


def test_unequal_stages_keep_the_memory_budget() -> None:
    problem = uniform_problem(devices=4, micro_batches=12)
    slow = replace(problem.stages[3], forward_ns=(25,) * 12, backward_input_ns=(29,) * 12)
    problem = replace(problem, stages=(*problem.stages[:3], slow))
    one, two = (
        schedules.zero_bubble_h1_schedule(problem),
        schedules.zero_bubble_h2_schedule(problem),
    )
    assert verify(problem, one.schedule) == []
    assert verify(problem, two.schedule) == []
    assert max(one.peak_memory_bytes) <= 4 * 4
    assert max(two.peak_memory_bytes) <= 4 * 7
    assert two.makespan_ns <= one.makespan_ns
