"""Whole placements: the optimum of small problems, limits, stops, and layers that are alike."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings

from planner.errors import SpecError
from planner.milp.engine import EngineLimits, EngineName
from planner.training.experts import milp
from planner.training.experts.layer import Layer
from planner.training.experts.place import (
    PROVEN_WITHIN,
    Placement,
    place_experts,
    place_quickly,
)
from planner.training.experts.problem import ExpertProblem, contiguous, load_factor
from planner.training.experts.routing import Routing
from planner.training.experts.verify import find_violations
from tests.unit.training.experts.small import (
    COSTS,
    best_s,
    group_of,
    options,
    problems,
    time_s,
)

ENGINES: tuple[EngineName, EngineName] = ("cbc", "highs")


def random_problem(experts: int, devices: int, seed: int = 1, layers: int = 1) -> ExpertProblem:
    numbers = random.Random(seed)
    rows = tuple(tuple(numbers.random() for _ in range(experts)) for _ in range(layers))
    return ExpertProblem(Routing(rows, 1), group_of(devices), COSTS)


@settings(max_examples=40, deadline=None)
@given(problems())
def test_both_engines_find_the_optimum_and_prove_it(problem: ExpertProblem) -> None:
    optimum = best_s(problem)
    for engine in ENGINES:
        placement = place_experts(problem, options(engine))
        assert find_violations(placement) == []
        (packed,) = placement.packed
        assert packed.ended_by == "proven"
        assert packed.time_s == pytest.approx(optimum, rel=PROVEN_WITHIN)
        assert packed.bound_s <= optimum * (1 + 1e-9)
        assert time_s(problem, placement.experts_of_device[0]) == pytest.approx(packed.time_s)


@settings(max_examples=20, deadline=None)
@given(problems())
def test_the_engines_find_the_optimum_from_a_poor_start(problem: ExpertProblem) -> None:
    """Without what local search would find."""
    optimum = best_s(problem)
    (layer,) = problem.layers()
    if layer.time_s(layer.loads(layer_packing(layer))) <= optimum * (1 + PROVEN_WITHIN):
        return
    poor_s = 2 * layer.time_s(layer.loads(layer_packing(layer)))
    for engine in ENGINES:
        limits = EngineLimits(20.0, 0.0, 1)
        result = milp.look_for_better(
            layer, poor_s, engine, limits, lambda: False, lambda line: None
        )
        assert result.packing is not None
        found_s = layer.time_s(layer.loads(result.packing))
        assert found_s == pytest.approx(optimum, rel=PROVEN_WITHIN)
        assert result.bound_s <= optimum * (1 + 1e-9)


def layer_packing(layer: Layer) -> tuple[tuple[int, ...], ...]:
    """All experts in their order, as many on each device as it may hold."""
    packing, place = [], 0
    for capacity in layer.capacity:
        packing.append(tuple(range(place, min(place + capacity, len(layer.weights)))))
        place += len(packing[-1])
    return tuple(packing)


@settings(max_examples=25, deadline=None)
@given(problems(layers=3))
def test_placements_of_several_layers_are_valid(problem: ExpertProblem) -> None:
    for placement in (place_quickly(problem), place_experts(problem, options())):
        assert find_violations(placement) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_what_local_search_leaves_open_the_engine_proves(engine: EngineName) -> None:
    problem = random_problem(24, 8, seed=192)
    quick = place_quickly(problem).packed[0]
    assert (quick.ended_by, quick.proven_by) == ("not_solved", None)
    placement = place_experts(problem, options(engine))
    (packed,) = placement.packed
    assert find_violations(placement) == []
    assert packed.ended_by == "proven"
    assert packed.proven_by == engine
    assert packed.bound_s > quick.bound_s
    assert packed.time_s <= quick.time_s


def test_equal_routing_is_proven_without_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milp, "look_for_better", None)
    problem = ExpertProblem(Routing(((1.0,) * 64,) * 4, 8), group_of(16), COSTS)
    for placement in (place_quickly(problem), place_experts(problem, options())):
        assert {packed.ended_by for packed in placement.packed} == {"proven"}
        assert load_factor(placement.experts_of_device[0], (1.0,) * 64) == 1.0


def test_a_dominant_expert_is_proven_without_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its q - 1 companions the least frequent, as a contiguous placement need not have it."""
    monkeypatch.setattr(milp, "look_for_better", None)
    weights = (40.0, 30.0, *(float(weight) for weight in range(1, 15)))
    problem = ExpertProblem(Routing((weights,), 1), group_of(8), COSTS)
    placement = place_experts(problem, options())
    assert placement.packed[0].ended_by == "proven"
    assert (0, 2) in placement.experts_of_device[0]
    assert load_factor(placement.experts_of_device[0], weights) == 41 * 8 / 175
    assert load_factor(contiguous(16, 8), weights) == 70 * 8 / 175


def test_layers_of_equal_frequencies_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[Layer] = []
    look_for_better = milp.look_for_better

    def counted(layer: Layer, *rest: object) -> milp.EngineResult:
        solved.append(layer)
        return look_for_better(layer, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(milp, "look_for_better", counted)
    one, other = random_problem(12, 4, layers=2).routing.weights
    turned = tuple(reversed(one))
    routing = Routing((one, other, turned, tuple(2 * weight for weight in other)), 1)
    problem = ExpertProblem(routing, group_of(4), COSTS)
    placement = place_experts(problem, options())
    assert len(solved) == 2
    assert find_violations(placement) == []
    held = placement.experts_of_device
    assert held[1] == held[3]
    assert held[2] == tuple(tuple(sorted(11 - expert for expert in own)) for own in held[0])


def test_a_gap_that_is_good_enough_ends_the_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(milp, "look_for_better", None)
    placement = place_experts(random_problem(64, 16), options(mip_gap=0.01))
    (packed,) = placement.packed
    assert packed.ended_by == "gap"
    assert PROVEN_WITHIN < packed.gap <= 0.01


def check_cut_short(placement: Placement, ended_by: str) -> None:
    assert find_violations(placement) == []
    (packed,) = placement.packed
    assert packed.ended_by == ended_by
    assert packed.bound_s < packed.time_s


@pytest.mark.parametrize("engine", ENGINES)
def test_the_time_limit_keeps_the_best(engine: EngineName) -> None:
    placement = place_experts(random_problem(64, 16), options(engine, 1.0))
    check_cut_short(placement, "time_limit")
    assert placement.packed[0].gap < 0.01


def test_no_time_at_all() -> None:
    check_cut_short(place_experts(random_problem(64, 16), options(time_limit_s=0.0)), "time_limit")


@pytest.mark.parametrize("after_s", [0.0, 1.0])
def test_a_stop_keeps_the_best(after_s: float) -> None:
    until = time.monotonic() + after_s
    placement = place_experts(
        random_problem(64, 16), options(should_stop=lambda: time.monotonic() >= until)
    )
    check_cut_short(placement, "stopped")


def test_experts_that_cannot_be_placed() -> None:
    problem = replace(random_problem(16, 4), group=group_of(4, memory=3 * 10**9))
    for place in (place_quickly, lambda own: place_experts(own, options())):
        with pytest.raises(SpecError, match="device 0 of the group has room for 3"):
            place(problem)


def test_quick_placements_load_no_solver() -> None:
    code = (
        "import planner.training.experts.answer, planner.training.experts.place, sys; "
        "sys.exit('mip' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_device_holds_everything() -> None:
    problem = random_problem(8, 1)
    (packed,) = place_experts(problem, options()).packed
    assert (packed.packing, packed.ended_by) == ((tuple(range(8)),), "proven")


def test_a_small_node_gets_less_where_links_are_slow() -> None:
    """Where a node's own links are its bottleneck, devices of the larger node get less."""
    group = replace(group_of(6, 4), link_bytes_per_s=2e9, network_bytes_per_s=40e9)
    weights = tuple(float(weight) for weight in range(30, 60))
    problem = ExpertProblem(
        Routing((weights,), 1), group, replace(COSTS, token_compute_s=0.0), equal_counts=False
    )
    placement = place_experts(problem, options(time_limit_s=3.0))
    assert find_violations(placement) == []
    loads = [sum(weights[e] for e in own) for own in placement.experts_of_device[0]]
    assert min(loads[4:]) > max(loads[:4])
    (layer,) = problem.layers()
    even = [round(layer.total / 6)] * 6
    assert placement.packed[0].time_s < 0.8 * layer.time_s(even)
