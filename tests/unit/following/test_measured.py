"""The measured gain against both plans timed exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.following.estimates import Estimate
from planner.following.measured import Before, Period, measured_gain
from planner.following.telemetry import COMPUTE_TIMES
from planner.pipeline.classic.schedules import (
    one_forward_one_backward_schedule,
    zero_bubble_h1_schedule,
)
from planner.pipeline.orders import orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.timing import time_orders
from tests.unit.following.runs import STAGES, problem

BASE = problem(None)
OLD, NEW = (
    orders_of(BASE, make(BASE).schedule.ops)
    for make in (one_forward_one_backward_schedule, zero_bubble_h1_schedule)
)
Factors = tuple[float, ...]
EVEN = (1.0,) * STAGES
factors = st.tuples(*[st.floats(0.5, 2.0)] * STAGES)


def slowed(by: Factors) -> PipelineProblem:
    stages = []
    for stage, factor in zip(BASE.stages, by, strict=True):
        times = {name: getattr(stage, name) for name in COMPUTE_TIMES}
        slower = {name: tuple(round(t * factor) for t in own) for name, own in times.items()}
        stages.append(replace(stage, **slower))
    return replace(BASE, stages=tuple(stages))


def ran(orders: object, by: Factors, noise: float = 0.0) -> Period:
    """Iterations of a plan while stages take so many times what they should."""
    current = slowed(by)
    makespan_ns = time_orders(current, orders).makespan_ns  # type: ignore[arg-type]
    times = {}
    for s, stage in enumerate(current.stages):
        for name in COMPUTE_TIMES:
            value = float(getattr(stage, name)[0])
            times[s, name] = Estimate(value, noise * value, noise * value, 20, 0, 0)
    return Period(float(makespan_ns), noise, times)


def true_gain(by: Factors) -> float:
    return 1 - ran(NEW, by).iteration_ns / ran(OLD, by).iteration_ns


def test_of_an_unchanged_pipeline_the_gain_is_exact() -> None:
    gain, noise = measured_gain(BASE, ran(OLD, EVEN), ran(NEW, EVEN))
    assert gain == pytest.approx(true_gain(EVEN))
    assert noise == 0


def test_what_lies_within_the_noise_of_stages_does_not_move_the_gain() -> None:
    gain, noise = measured_gain(BASE, ran(OLD, EVEN, 0.002), ran(NEW, (1.004, 1, 0.997), 0.002))
    expected = 1 - ran(NEW, (1.004, 1, 0.997)).iteration_ns / ran(OLD, EVEN).iteration_ns
    assert gain == pytest.approx(expected)
    assert noise == pytest.approx((1 - gain) * 0.002 * 2**0.5)


@settings(max_examples=300, deadline=None)
@given(before=factors, after=factors)
def test_the_true_gain_is_within_two_errors(before: Factors, after: Factors) -> None:
    gain, noise = measured_gain(BASE, ran(OLD, before), ran(NEW, after))
    assert abs(gain - true_gain(after)) <= 2 * noise + 0.01


def test_a_good_plan_is_not_blamed_where_a_straggler_recovers_in_part() -> None:
    before, after = (1.0, 1.5, 1.0), (1.0, 1.2, 1.0)
    gain, noise = measured_gain(BASE, ran(OLD, before), ran(NEW, after))
    assert gain == pytest.approx(true_gain(after), abs=0.03)
    assert gain + 2 * noise > 0


def test_a_bad_plan_is_found_where_all_stages_are_slower_alike() -> None:
    gain, noise = measured_gain(BASE, ran(NEW, EVEN), ran(OLD, (1.01,) * STAGES))
    assert gain == pytest.approx(-true_gain(EVEN) / (1 - true_gain(EVEN)), abs=0.002)
    assert gain + 2 * noise < 0


def test_it_is_remembered_with_its_times() -> None:
    before = Before(3, ran(OLD, EVEN, 0.01))
    assert Before.from_document(before.to_document()) == before
    without = {"version": 3, "iteration_ns": 1e6, "noise": 0.01, "work_ns": 5e5}
    assert Before.from_document(without) == Before(3, Period(1e6, 0.01, {}))
