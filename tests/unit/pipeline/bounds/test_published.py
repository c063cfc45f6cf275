"""Bounds against published closed forms, proven optima and the exact optimum of small problems."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, event, given, settings

from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.documents import read_problem
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.milp.improve import MilpSettings, improve
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import Objective, PipelineProblem
from tests.problems import problems, uniform_problem

BENCHMARKS = Path(__file__).resolve().parents[4] / "benchmarks" / "problems"
OPTIMA = {
    "balanced-4x8-1f1b-memory": 453_000_000,
    "lmhead-8x32": 2_382_900_000,
    "offload-8x16-shared-switch": 938_800_000,
    "offload-8x32-half-memory": 1_781_200_000,
    "zb-1.5b-8x24-mem1": 1_310_405_000,
    "zb-6.2b-8x32-mem1": 2_820_249_000,
    "zb-6.2b-8x32-mem1.5": 2_742_563_000,
    "zb-6.2b-8x32-mem2": 2_742_563_000,
    "zb-14.6b-16x48-mem1": 1_714_461_000,
    "zb-14.6b-16x48-mem1.5": 1_650_756_000,
    "zb-14.6b-16x48-mem2": 1_650_756_000,
    "zb-28.3b-32x96-mem1": 3_171_569_000,
}
"""Where a schedule of the same length is known."""
AT_LEAST = {
    "half-memory-8x16": 1_340_800_000,
    "large-16x128-1f1b-memory": 4_237_300_000,
    "uneven-8x16-1f1b-memory": 1_097_300_000,
    "varlen-4x12": 629_280_000,
    "zb-6.2b-8x32-mem0.5": 4_094_000_000,
    "zb-6.2b-8x32-mem0.75": 3_033_000_000,
}
"""Values that the bounds reached where no equal schedule is known."""


def problem_of(name: str) -> PipelineProblem:
    return read_problem(json.loads((BENCHMARKS / f"{name}.json").read_text()))


def best_ns(problem: PipelineProblem) -> int:
    return lower_bounds(problem)[0].value_ns


@pytest.mark.parametrize("name", OPTIMA)
def test_bound_equals_the_known_optimum(name: str) -> None:
    assert best_ns(problem_of(name)) == OPTIMA[name]


@pytest.mark.parametrize("name", AT_LEAST)
def test_bound_is_no_weaker_than_it_was(name: str) -> None:
    assert best_ns(problem_of(name)) >= AT_LEAST[name]


def test_no_bound_lies_above_a_known_schedule() -> None:
    known = json.loads((BENCHMARKS / "best-known.json").read_text())
    for name, entry in known.items():
        if "makespan_ns" in entry:
            for bound in lower_bounds(problem_of(name)):
                assert bound.value_ns <= entry["makespan_ns"], (name, bound)


@pytest.mark.parametrize("objective", Objective)
def test_closed_form_of_equal_stages_at_the_memory_of_1f1b(
    objective: Objective,
) -> None:
    """m (F + B + W) + (p - 1)(F + B - W + 4 c), both objectives: the bubble of ZB-H1."""
    for p, m, f, b, w, c in ((4, 8, 18, 18, 9, 1), (4, 12, 10, 10, 8, 0), (8, 24, 30, 29, 20, 1)):
        problem = uniform_problem(
            devices=p,
            micro_batches=m,
            limit=34 * p,
            transfer_ns=c,
            forward_ns=f,
            backward_input_ns=b,
            backward_weight_ns=w,
            activation_bytes=34,
            weight_grad_bytes=32,
        )
        problem = replace(problem, objective=objective)
        expected = m * (f + b + w) + (p - 1) * (f + b - w + 4 * c)
        assert best_ns(problem) == expected


class _Silent:
    def log(self, line: str) -> None: ...

    def bound(self, name: str, value: float) -> None: ...


@settings(max_examples=25, deadline=None)
@given(
    problems(max_devices=3, max_chunks=1, max_micro_batches=3, hosts=False, objective="makespan")
)
def test_no_bound_lies_above_the_optimum_that_an_engine_proves(problem: PipelineProblem) -> None:
    assume(find_infeasibility(problem) is None)
    assume(problem.micro_batch_order == "fixed")
    outcome = improve(
        problem, None, MilpSettings("highs", 5.0, 0.0, 1, None, 0), _Silent(), lambda: False
    )
    assume(outcome.schedule is not None)
    assert outcome.schedule is not None
    optimum = objective_ns(problem, outcome.schedule)
    bounds = lower_bounds(problem)
    event(f"bound is reached: {bounds[0].value_ns == optimum}")
    for bound in bounds:
        assert bound.value_ns <= optimum, bound
