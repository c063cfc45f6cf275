"""A good schedule at once is valid, there wherever one exists, and no worse than 1F1B."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from planner.following import quick
from planner.following.quick import quick_schedule
from planner.pipeline.classic.rows import schedules_named
from planner.pipeline.classic.shortage import shortage
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.verify import verify
from tests.problems import problems
from tests.unit.following.pipelines import ACTIVATION_BYTES, layered


@settings(max_examples=15, deadline=None)
@given(problem=problems())
def test_there_is_a_verified_one_wherever_anything_fits(problem: PipelineProblem) -> None:
    found = quick_schedule(problem)
    assert (found is None) == (find_infeasibility(problem) is not None)
    if found is not None:
        assert verify(problem, found.schedule) == []


@pytest.mark.parametrize(
    ("devices", "name"),
    [
        ((0, 1, 2, 3), "1F1B"),
        ((0, 1, 2, 3), "ZB-H2"),
        ((0, 1, 0, 1), "Interleaved 1F1B"),
        ((0, 1, 1, 0), "ZB-V"),
    ],
)
def test_it_is_no_worse_than_the_classic_of_the_placement(
    devices: tuple[int, ...], name: str
) -> None:
    problem = layered((2, 2, 3, 2), device_of_stage=devices)
    found = quick_schedule(problem)
    assert found is not None
    for classic in schedules_named(problem, name):
        assert shortage(classic) is None
        assert objective_ns(problem, found.schedule) <= classic.objective_ns


def test_offloads_are_used_where_memory_is_short() -> None:
    """With room for one micro-batch less than the round trip needs."""
    limits = (5 * ACTIVATION_BYTES,) * 4
    tight = layered((2, 2, 2, 2), limits=limits)
    loose = layered((2, 2, 2, 2), limits=limits, offload=True)
    without, with_offloads = quick_schedule(tight), quick_schedule(loose)
    assert without is not None
    assert with_offloads is not None
    assert with_offloads.schedule.makespan_ns < without.schedule.makespan_ns
    assert with_offloads.schedule.offloads


def test_told_to_stop_it_still_has_one() -> None:
    problem = layered((2, 2, 2, 2))
    found = quick_schedule(problem, lambda: True)
    assert found is not None
    assert verify(problem, found.schedule) == []


def test_long_iterations_are_answered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = layered((1,) * 8, micro_batches=16)
    monkeypatch.setattr(quick, "LARGE_OPERATIONS", problem.operations)
    found = quick_schedule(problem)
    assert found is not None
    assert verify(problem, found.schedule) == []
    [classic] = schedules_named(problem, "1F1B")
    assert found.schedule.makespan_ns <= classic.objective_ns
