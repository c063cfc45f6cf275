"""Lower bounds: never above any schedule, never below the independent checker's."""

from __future__ import annotations

import json
from math import gcd
from random import Random
from typing import Any

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from planner.pipeline.bounds.lower_bounds import lower_bounds, time_grid_ns
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify
from tests import referee
from tests.brute_force import least_objective, objective_ns
from tests.problems import problems, uniform_document, uniform_problem
from tests.random_schedules import random_schedule

NAMES = {
    "arrival and work",
    "critical path",
    "drain idle",
    "fill and drain idle",
    "fill idle",
    "memory-time",
    "recycling",
    "tail",
    "work and drain",
}


def best_ns(problem: PipelineProblem) -> int:
    return lower_bounds(problem)[0].value_ns


def named_ns(problem: PipelineProblem) -> dict[str, int]:
    return {bound.name: bound.value_ns for bound in lower_bounds(problem)}


@settings(max_examples=150, deadline=None)
@given(problems(), st.integers(0, 2**32))
def test_no_bound_lies_above_a_random_valid_schedule(problem: PipelineProblem, seed: int) -> None:
    assume(find_infeasibility(problem) is None)
    schedule = random_schedule(problem, Random(seed))
    for bound in lower_bounds(problem):
        assert bound.value_ns <= objective_ns(problem, schedule), bound.name


@settings(max_examples=100, deadline=None)
@given(problems(max_devices=2, max_chunks=1, max_micro_batches=2))
def test_no_bound_lies_above_the_best_of_all_orders(problem: PipelineProblem) -> None:
    assume(len(problem.stages) * problem.micro_batches <= 4)
    assume(sum(sum(map(bool, stage.offload_bytes)) for stage in problem.stages) <= 1)
    least = least_objective(problem)
    assume(least is not None)
    assert least is not None
    best = best_ns(problem)
    event(f"bound is reached: {best == least}")
    assert best <= least
    if not problem.hosts and problem.objective == "makespan":
        # The optimum lies on the grid that bounds are rounded up to.
        assert least % time_grid_ns(problem) == 0


@settings(max_examples=150, deadline=None)
@given(problems(objective="makespan"))
def test_best_bound_is_at_least_that_of_the_independent_checker(problem: PipelineProblem) -> None:
    assume(find_infeasibility(problem) is None)
    checker = referee.load()
    simple = checker.lower_bound(checker.Problem(problem_to_document(problem)))
    assert best_ns(problem) >= simple


@given(problems())
def test_bounds_are_named_ordered_and_on_the_grid(problem: PipelineProblem) -> None:
    bounds = lower_bounds(problem)
    assert {bound.name for bound in bounds} == NAMES
    values = [bound.value_ns for bound in bounds]
    assert values == sorted(values, reverse=True)
    assert all(value % time_grid_ns(problem) == 0 for value in values)


def test_published_closed_form_of_equal_stages() -> None:
    """Without limits: (p - 1)(F + c) + m (F + B + W), on the last stage."""
    p, m, f, b, w, c = 4, 8, 18, 18, 9, 1
    problem = uniform_problem(
        devices=p,
        micro_batches=m,
        forward_ns=f,
        backward_input_ns=b,
        backward_weight_ns=w,
        transfer_ns=c,
    )
    assert named_ns(problem)["arrival and work"] == (p - 1) * (f + c) + m * (f + b + w)


def test_critical_path_of_a_single_micro_batch_is_the_whole_iteration() -> None:
    document = uniform_document(devices=3, micro_batches=1, transfer_ns=2)
    document["devices"][0]["epilogue_ns"] = 5
    problem = read_problem(document)
    assert named_ns(problem)["critical path"] == 3 * (10 + 12) + 4 * 2 + 8 + 5
    assert random_schedule(problem, Random(0)).makespan_ns == best_ns(problem)


def test_memory_for_one_micro_batch_at_a_time_makes_the_memory_time_bound_exact() -> None:
    """One activation at a time on device 0: each round trip follows the one before."""
    problem = uniform_problem(
        devices=2, micro_batches=5, limit=4, backward_weight_ns=0, weight_grad_bytes=0
    )
    assert named_ns(problem)["memory-time"] == 5 * 2 * (10 + 12)
    assert best_ns(problem) == random_schedule(problem, Random(0)).makespan_ns


def test_limit_that_is_no_multiple_of_what_is_held_counts_as_the_multiple_below() -> None:
    exact = uniform_problem(limit=8, activation_bytes=4, weight_grad_bytes=4)
    spare = uniform_problem(limit=11, activation_bytes=4, weight_grad_bytes=4)
    assert named_ns(exact)["memory-time"] == named_ns(spare)["memory-time"]


def test_offloading_saves_no_more_than_the_link_can_carry() -> None:
    """A slow link takes few activations away: the bound falls from that without offload to that
    of a fast link, and lies between for a slow one."""
    options: dict[str, Any] = {"devices": 4, "micro_batches": 12, "limit": 4}
    none = named_ns(uniform_problem(**options))["memory-time"]
    slow, fast = (
        named_ns(uniform_problem(**options, offload_bytes=4, offload_ns=t, reload_ns=t))[
            "memory-time"
        ]
        for t in (30, 2)
    )
    assert fast < slow < none


def test_devices_that_share_a_link_save_less_together() -> None:
    document = uniform_document(
        devices=8, micro_batches=12, limit=4, offload_bytes=4, offload_ns=20, reload_ns=20
    )
    own = named_ns(read_problem(document))["memory-time"]
    for device in document["devices"]:
        device["host_link"] = "switch"
    assert named_ns(read_problem(document))["memory-time"] > own


def test_free_order_may_start_with_any_micro_batch() -> None:
    document = uniform_document(devices=2, micro_batches=3)
    document["stages"][0]["forward_ns"] = [30, 2, 4]
    document["stages"][1]["forward_ns"] = 20
    assert named_ns(read_problem(document))["arrival and work"] == 30 + 3 * 40
    document["micro_batch_order"] = "free"
    assert named_ns(read_problem(document))["arrival and work"] == 2 + 3 * 40


def test_steady_span_leaves_out_the_arrival() -> None:
    document = uniform_document(devices=4, micro_batches=8, transfer_ns=1)
    document["objective"] = "steady_span"
    document["devices"][3]["epilogue_ns"] = 7
    assert named_ns(read_problem(document))["arrival and work"] == 8 * 30 + 7


def test_time_grid_counts_transfers_only_where_something_can_be_offloaded() -> None:
    times: dict[str, Any] = {"forward_ns": 12, "backward_input_ns": 18, "backward_weight_ns": 6}
    assert time_grid_ns(uniform_problem(**times, offload_ns=5, reload_ns=5)) == 6
    assert time_grid_ns(uniform_problem(**times, offload_bytes=1, offload_ns=4)) == gcd(6, 4)
    assert time_grid_ns(uniform_problem(**times, transfer_ns=3)) == 3
    zeros: dict[str, Any] = dict.fromkeys(times, 0)
    assert time_grid_ns(uniform_problem(**zeros)) == 1


def test_steady_span_may_be_best_off_the_grid_of_its_times() -> None:
    """All times are even. Delaying device 1 shortens its span and lengthens device 0's: 79 ns is
    where they meet, against 80 one nanosecond earlier or later."""
    problem = read_problem(
        {
            "micro_batches": 2,
            "objective": "steady_span",
            "devices": [{}, {"epilogue_ns": 56}],
            "stages": [
                {"device": 0, "forward_ns": [2, 20], "backward_input_ns": [30, 2]},
                {"device": 1, "forward_ns": 2, "backward_input_ns": 2},
            ],
            "transfers": [{"forward_ns": 20, "backward_ns": 20}],
        }
    )

    def span_ns(start_ns: int) -> int:
        ops = [
            TimedOp("F", 0, 0, 0, 2),
            TimedOp("F", 0, 1, 2, 22),
            TimedOp("F", 1, 0, start_ns, start_ns + 2),
            TimedOp("B", 1, 0, start_ns + 2, start_ns + 4),
            TimedOp("F", 1, 1, 42, 44),
            TimedOp("B", 1, 1, 44, 46),
            TimedOp("B", 0, 0, start_ns + 24, start_ns + 54),
            TimedOp("B", 0, 1, start_ns + 54, start_ns + 56),
        ]
        schedule = schedule_from_ops(problem, ops)
        assert verify(problem, schedule) == []
        return schedule.steady_span_ns

    assert [span_ns(start) for start in (22, 23, 24)] == [80, 79, 80]
    assert time_grid_ns(problem) == 1
    assert best_ns(problem) <= 79


def test_benchmarks_lie_between_the_simple_bound_and_the_best_known() -> None:
    known = referee.BENCHMARKS / "best-known.json"
    if not known.exists():
        pytest.skip("the benchmark problems are not beside this checkout")
    checker = referee.load()
    for name, entry in json.loads(known.read_text()).items():
        if "makespan_ns" not in entry:
            continue
        document = json.loads((referee.BENCHMARKS / f"{name}.json").read_text())
        simple = checker.lower_bound(checker.Problem(document))
        assert simple <= best_ns(read_problem(document)) <= entry["makespan_ns"], name
