"""The LP relaxation: never above an optimum, above the other bounds where they are weak."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings

from planner.pipeline.bounds import relaxation
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.bounds.relaxation import read_row_duals, relaxation_bound
from planner.pipeline.documents import read_problem
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.milp.improve import MilpSettings, improve
from planner.pipeline.milp.rounds import bound_holds
from planner.pipeline.problem import PipelineProblem
from tests.brute_force import least_objective
from tests.problems import problems, uniform_document

BENCHMARKS = Path(__file__).resolve().parents[4] / "benchmarks" / "problems"


def never() -> bool:
    return False


class Silent:
    """A report that nobody reads."""

    def log(self, line: str) -> None: ...

    def bound(self, name: str, value: float) -> None: ...


def varlen() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((BENCHMARKS / "varlen-4x12.json").read_text())
    return document


def with_first_micro_batches(document: dict[str, Any], count: int) -> PipelineProblem:
    """The problem of a document's first micro-batches."""
    for values in [*document["stages"], *document["transfers"]]:
        for name, value in values.items():
            values[name] = value[:count] if isinstance(value, list) else value
    document["micro_batches"] = count
    return read_problem(document)


def test_a_fault_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("min() of nothing")

    monkeypatch.setattr(relaxation, "tighten", fail)
    problem = with_first_micro_batches(varlen(), 4)
    with pytest.raises(ValueError, match="of nothing"):
        relaxation_bound(problem, 10.0, never)


@pytest.mark.parametrize("line", ["constr(0) -0.", "constr(0)", "constr(", "constr(9) 1.0"])
def test_a_solution_file_that_cannot_be_read_proves_nothing(line: str) -> None:
    text = f"# Dual solution values\n# Rows 2\n{line}\n"
    read = read_row_duals(text, 2)
    assert read == ([-0.0, 0.0] if line == "constr(0) -0." else None)


@settings(max_examples=25, deadline=None)
@given(problems(max_devices=2, max_chunks=1, max_micro_batches=2))
def test_relaxation_is_never_above_the_best_of_all_orders(problem: PipelineProblem) -> None:
    assume(sum(sum(map(bool, stage.offload_bytes)) for stage in problem.stages) <= 1)
    assume(find_infeasibility(problem) is None)
    least = least_objective(problem)
    assume(least is not None)
    assert least is not None
    bound = relaxation_bound(problem, 20.0, never)
    assert bound is None or lower_bounds(problem)[0].value_ns < bound.value_ns <= least


def test_relaxation_raises_the_bound_of_micro_batches_that_differ() -> None:
    """Up to the optimum of the first five micro-batches of varlen-4x12."""
    problem = with_first_micro_batches(varlen(), 5)
    settings = MilpSettings("highs", 30.0, 0.0, 1, None, 0)
    optimum = improve(problem, None, settings, Silent(), never)
    assert optimum.status == "optimal"
    assert optimum.schedule is not None
    bound = relaxation_bound(problem, 30.0, never)
    assert bound is not None
    assert lower_bounds(problem)[0].value_ns < bound.value_ns <= optimum.schedule.makespan_ns


def test_nothing_is_claimed_without_time_or_where_the_model_leaves_schedules_out() -> None:
    document = varlen()
    assert relaxation_bound(read_problem(document), 0.0, never) is None
    assert relaxation_bound(read_problem(document), 60.0, lambda: True) is None
    document["micro_batch_order"] = "free"
    problem = read_problem(document)
    assert not bound_holds(problem)
    assert relaxation_bound(problem, 60.0, never) is None


def test_nothing_is_claimed_of_problems_that_are_too_large_or_infeasible() -> None:
    large = read_problem(uniform_document(devices=16, micro_batches=64))
    assert relaxation_bound(large, 60.0, never) is None
    impossible = read_problem(uniform_document(devices=2, micro_batches=2, limit=3))
    assert relaxation_bound(impossible, 60.0, never) is None


def test_row_duals_are_read_by_name() -> None:
    text = (
        "# Primal solution values\n# Rows 2\nconstr(0) 5\nconstr(1) 6\n"
        "# Dual solution values\nFeasible\n# Columns 1\nx0 1\n"
        "# Rows 2\nconstr(1) -0.5\nconstr(0) 0\n\n# Basis\n"
    )
    assert read_row_duals(text, 2) == [0.0, -0.5]
    assert read_row_duals("# Primal solution values\n# Rows 0\n", 2) is None
