"""From frequencies and devices to packing problems: loads, times, and what does not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import SpecError
from planner.training.experts.problem import (
    ExpertCosts,
    ExpertGroup,
    ExpertProblem,
    contiguous,
    load_factor,
)
from planner.training.experts.routing import Routing
from tests.unit.training.experts.small import COSTS, every_placement, group_of, problems, time_s


def test_the_default_is_that_of_megatron_lm() -> None:
    assert contiguous(8, 4) == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert contiguous(5, 2) == ((0, 1, 2), (3, 4))


def test_the_load_factor_is_the_largest_over_the_mean() -> None:
    assert load_factor([[0, 1], [2, 3]], [1, 1, 1, 1]) == 1
    assert load_factor([[0, 1], [2, 3]], [3, 3, 1, 1]) == 1.5
    assert load_factor([[0], [], [1]], [0.5, 0.5]) == 1.5


def test_a_layer_by_hand() -> None:
    """Two nodes of two: 100 tokens per device, 10 bytes each, two of four experts per token."""
    problem = ExpertProblem(
        Routing(((4.0, 2.0, 1.0, 1.0),), experts_per_token=2),
        ExpertGroup((0, 0, 1, 1), link_bytes_per_s=1000.0, network_bytes_per_s=500.0),
        ExpertCosts(state_bytes=1, tokens=100, token_bytes=10, token_compute_s=0.5),
    )
    (layer,) = problem.layers()
    # The first expert is chosen by all 400 tokens.
    loads = layer.loads(((0,), (1,), (2,), (3,)))
    assert loads == [4, 2, 1, 1]
    assert layer.compute_s * max(loads) == pytest.approx(400 * 0.5)
    # 100 tokens from its neighbour at 1000 bytes/s, 200 from the other node at 500, four times.
    assert layer.exchange_s(loads) == pytest.approx(4 * max(100 * 10 / 1000, 200 * 10 / 500))
    assert layer.time_s(loads) == pytest.approx(200 + 16)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_times_are_those_of_every_token_on_its_way(problem: ExpertProblem) -> None:
    (layer,) = problem.layers()
    weights = problem.routing.whole_weights[0]
    for held, _ in zip(every_placement(problem), range(100), strict=False):
        loads = [sum(weights[expert] for expert in own) for own in held]
        assert layer.time_s(loads) == pytest.approx(time_s(problem, held), rel=1e-9)


def problem_of(experts: int, layers: int = 1, **changed: object) -> ExpertProblem:
    routing = Routing(((1.0,) * experts,) * layers, 1)
    return replace(ExpertProblem(routing, group_of(4), COSTS), **changed)  # type: ignore[arg-type]


def test_counts_that_cannot_be_equal() -> None:
    with pytest.raises(SpecError, match="6 experts cannot be divided equally among 4") as caught:
        problem_of(6).layers()
    assert caught.value.remedy == "Degrees that divide them: 1, 2, 3, 6."
    (layer,) = problem_of(6, equal_counts=False).layers()
    assert layer.capacity == (6, 6, 6, 6)


def test_a_device_without_room_for_its_experts() -> None:
    room = (4, 4, 3, 4)
    group = replace(group_of(4), memory_bytes=tuple(count * 10**9 for count in room))
    message = "4 experts .of 2 layers. take 3.73 GiB, and device 2 .* room for 3 of them"
    with pytest.raises(SpecError, match=message) as caught:
        problem_of(8, 2, group=group).layers()
    assert "Raise expert_parallel" in caught.value.remedy


def test_devices_without_room_for_all_experts() -> None:
    group = replace(group_of(4), memory_bytes=(10**10, 4 * 10**9, 10**9 - 1, 0))
    with pytest.raises(SpecError, match="have room for 14 of them"):
        problem_of(8, 2, group=group, equal_counts=False).layers()


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 5),
    st.lists(st.integers(0, 30), min_size=4, max_size=4),
)
def test_unequal_room_is_dealt_so_that_every_layer_fits(
    experts: int, layers: int, rooms: list[int]
) -> None:
    group = replace(group_of(4), memory_bytes=tuple(room * 10**9 for room in rooms))
    problem = problem_of(experts, layers, group=group, equal_counts=False)
    if sum(min(room, experts * layers) for room in rooms) < experts * layers:
        with pytest.raises(SpecError, match="have room for"):
            problem.layers()
        return
    packed = problem.layers()
    assert all(sum(layer.capacity) >= experts for layer in packed)
    for device, room in enumerate(rooms):
        assert sum(layer.capacity[device] for layer in packed) == min(room, experts * layers)
