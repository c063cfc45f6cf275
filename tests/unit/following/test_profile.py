"""The fresh problem has what was measured, keeps what was not, and leaves headroom."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from planner.errors import SpecError
from planner.following.estimates import Estimate, Key
from planner.following.profile import fresh_problem, limit_changes, planned, stage_noise
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.problem import PipelineProblem
from tests.unit.following.runs import problem


def known(value: float, error: float = 0.0) -> Estimate:
    return Estimate(value, error, error, 20, 0, 0)


def with_stage(base: PipelineProblem, s: int, **own: tuple[int, ...]) -> PipelineProblem:
    stages = list(base.stages)
    stages[s] = replace(stages[s], **own)  # type: ignore[arg-type]
    return replace(base, stages=tuple(stages))


def test_without_estimates_nothing_changes() -> None:
    assert fresh_problem(problem(), {}) == problem()


def test_micro_batches_keep_their_proportions() -> None:
    base = with_stage(problem(), 1, forward_ns=(100, 200, 200, 400))
    fresh = fresh_problem(base, {(1, "forward_ns"): known(300)})
    assert fresh.stages[1].forward_ns == (150, 300, 300, 600)
    assert fresh.stages[0] == base.stages[0]


def test_what_is_measured_is_what_the_fresh_problem_says() -> None:
    base = problem(offload=True)
    estimates = {
        (0, "forward_ns"): known(1_234_567),
        (1, "backward_input_ns"): known(999_999),
        (1, "backward_weight_ns"): known(1),
        (2, "offload_ns"): known(1_800_000),
        (2, "reload_ns"): known(1_600_000),
        (0, "transfer_forward_ns"): known(7_000),
        (1, "transfer_backward_ns"): known(8_000),
        (2, "forward_memory_delta_bytes"): known(150),
        (2, "backward_memory_delta_bytes"): known(-90),
    }
    fresh = fresh_problem(base, estimates)
    assert {key: planned(fresh, key) for key in estimates} == {
        key: estimate.value for key, estimate in estimates.items()
    }
    assert fresh.transfers[1].forward_ns == base.transfers[1].forward_ns


def memory_deltas(forward: float, backward: float) -> dict[tuple[int, str], Estimate]:
    names = ("forward_memory_delta_bytes", "backward_memory_delta_bytes")
    return {(0, name): known(value) for name, value in zip(names, (forward, backward), strict=True)}


def test_memory_deltas_of_a_stage_are_believed_together() -> None:
    planned = problem()
    assert fresh_problem(planned, memory_deltas(0, 400)) == planned
    alone = {(0, "backward_memory_delta_bytes"): known(400)}
    assert fresh_problem(planned, alone) == planned


def test_a_memory_delta_of_b_may_have_either_sign() -> None:
    frees = fresh_problem(problem(), memory_deltas(100, -70))
    grows = fresh_problem(problem(), memory_deltas(100, 20))
    more = fresh_problem(problem(), memory_deltas(100, -500))
    assert median(frees.stages[0].weight_grad_bytes) == 30
    assert median(grows.stages[0].weight_grad_bytes) == 120
    assert median(more.stages[0].weight_grad_bytes) == 0


def test_the_share_that_is_offloaded_stays() -> None:
    fresh = fresh_problem(problem(offload=True), {(0, "forward_memory_delta_bytes"): known(200)})
    assert fresh.stages[0].offload_bytes == (120,) * 4
    assert fresh.stages[0].weight_grad_bytes == (80,) * 4


def test_a_forward_that_seems_to_keep_nothing_is_not_believed() -> None:
    for value in (0, -50):
        fresh = fresh_problem(problem(), {(0, "forward_memory_delta_bytes"): known(value)})
        assert fresh.stages[0].activation_bytes == (100,) * 4


def test_a_w_that_was_one_operation_stays_one() -> None:
    base = with_stage(problem(), 0, backward_weight_ns=(0, 10, 10, 20))
    fresh = fresh_problem(base, {(0, "backward_weight_ns"): known(0.2)})
    assert fresh.stages[0].backward_weight_ns == (0, 1, 1, 1)


def test_a_fused_backward_takes_what_b_and_w_take() -> None:
    base = with_stage(problem(), 0, backward_weight_ns=(0,) * 4)
    estimates = {
        (0, "backward_input_ns"): known(1_000),
        (0, "backward_weight_ns"): known(600),
    }
    fresh = fresh_problem(base, estimates)
    assert fresh.stages[0].backward_input_ns == (1_600,) * 4
    assert fresh.stages[0].backward_weight_ns == (0,) * 4
    assert planned(base, (0, "backward_weight_ns")) is None


def test_copies_of_a_stage_that_offloads_nothing_stay_out() -> None:
    assert fresh_problem(problem(), {(0, "offload_ns"): known(5)}) == problem()


def test_limits_leave_headroom_and_follow_the_devices() -> None:
    fresh = fresh_problem(problem(1_000), {}, 0.02, {1: -200})
    limits = [device.activation_memory_bytes for device in fresh.devices]
    assert limits == [980, 784, 980]
    unlimited = fresh_problem(problem(None), {}, 0.02, {1: -200})
    assert [device.activation_memory_bytes for device in unlimited.devices] == [None] * 3


def test_of_several_stages_of_a_device_the_one_that_lost_most_counts() -> None:
    base = problem()
    base = replace(base, stages=tuple(replace(stage, device=0) for stage in base.stages))
    assert limit_changes(base, {0: 100, 1: 100}, {0: 90, 1: 50, 2: 70}) == {0: -50}


def test_noise_of_a_stage_adds_up_as_squares() -> None:
    base = problem()
    estimates: dict[Key, Estimate] = {
        (1, "forward_ns"): known(1_000_000, 30_000),
        (1, "backward_input_ns"): known(1_100_000, 40_000),
    }
    assert stage_noise(base, estimates) == pytest.approx((0.0, 50_000 / 2_800_000, 0.0))


def test_sizes_stay_what_a_document_can_hold() -> None:
    most = 2**53 - 1
    estimates = {
        (0, "forward_memory_delta_bytes"): known(most),
        (0, "backward_memory_delta_bytes"): known(most),
    }
    base = with_stage(problem(most), 0, activation_bytes=(50, 100, 100, 200))
    fresh = fresh_problem(base, estimates, 0.0, {0: most})
    assert read_problem(problem_to_document(fresh)) == fresh


def test_times_beyond_what_a_schedule_can_hold_are_refused() -> None:
    with pytest.raises(SpecError):
        fresh_problem(problem(), {(0, "forward_ns"): known(2**53 - 1)})
