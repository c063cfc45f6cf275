"""Solves that take long or end without a plan."""

from __future__ import annotations

import pytest

from planner.diagnoses.causes.solver import ENGINES_OPERATIONS, WHOLE_BINARIES, order_binaries
from planner.diagnoses.names import Cause, State, Symptom
from planner.pipeline.documents import read_problem
from planner.pipeline.milp.improve import WHOLE_AFTER_WINDOWS, estimated_binaries
from planner.pipeline.portfolio.exact import MOST_OPERATIONS
from tests.unit.diagnoses.cases import answer, finding, for_of, offloading, problem, remedy, state

SLOW, NO_PLAN = Symptom.SOLVER_TOO_SLOW, Symptom.NO_FEASIBLE_PLAN


def test_the_limits_are_those_of_the_solver() -> None:
    """Copied, since what has them loads solvers."""
    assert (ENGINES_OPERATIONS, WHOLE_BINARIES) == (MOST_OPERATIONS, WHOLE_AFTER_WINDOWS)
    for document in (problem(), offloading(), problem(stages=7, micro_batches=3)):
        own = read_problem(document)
        assert order_binaries(own) == estimated_binaries(own, own.micro_batches)


def test_large_problems_are_too_large_for_engines() -> None:
    large = problem(stages=8, micro_batches=1000)
    found = finding(Cause.PROBLEM_TOO_LARGE, SLOW, problem=large)
    assert (found["state"], for_of(found)[0]["value"]) == ("supported", 24_000)
    assert remedy(found, "heuristic_plan")["no_prediction"]
    small = finding(Cause.PROBLEM_TOO_LARGE, SLOW, problem=problem())
    assert small["state"] == "ruled_out"
    assert state(Cause.PROBLEM_TOO_LARGE, SLOW) == State.POSSIBLE


def test_the_milp_is_judged_by_its_binaries() -> None:
    middle = problem(stages=4, micro_batches=40)
    found = finding(Cause.PROBLEM_TOO_LARGE, SLOW, problem=middle, solver={"engine": "cbc"})
    assert found["state"] == "supported"
    assert remedy(found, "smaller_problem")["request_changes"] == {"solver.engine": "auto"}
    assert remedy(found, "heuristic_plan")["predicted_effect"]["after"] > 0
    assert state(Cause.PROBLEM_TOO_LARGE, SLOW, problem=middle) == State.RULED_OUT


def test_a_log_that_names_an_engine_left_out_is_believed() -> None:
    found = finding(
        Cause.PROBLEM_TOO_LARGE,
        SLOW,
        problem=problem(),
        solve={"log": ["hello", "as_posted is too large for cp_sat"]},
    )
    assert found["state"] == "supported"
    assert "cp_sat" in for_of(found)[0]["value"]


def test_time_used_up_with_a_gap_left() -> None:
    cause = Cause.TIME_LIMIT_TOO_SHORT
    found = finding(cause, SLOW, solver={"time_limit_s": 10}, solve={"spent_s": 10, "gap": 0.25})
    assert found["state"] == "supported"
    assert "At most 20.0% less" in remedy(found, "more_time")["no_prediction"]
    done = {"spent_s": 3, "gap": 0.0}
    assert state(cause, SLOW, solver={"time_limit_s": 10}, solve=done) == State.RULED_OUT
    assert state(cause, NO_PLAN, solver={"time_limit_s": 10}, solve={"spent_s": 10}) == (
        State.SUPPORTED
    )
    assert state(cause, SLOW) == State.POSSIBLE


def test_a_small_gap_is_only_proof_that_is_missing() -> None:
    cause = Cause.GAP_ASKED_TOO_SMALL
    found = finding(cause, SLOW, solve={"gap": 0.02})
    assert found["state"] == "supported"
    changes = remedy(found, "accept_gap")["request_changes"]
    assert changes["solver.mip_gap"] == pytest.approx(0.02, rel=0.01)
    assert changes["solver.mip_gap"] >= 0.02
    assert state(cause, SLOW, solve={"gap": 0.5}) == State.RULED_OUT
    assert state(cause, SLOW, solve={"gap": 0.02}, solver={"mip_gap": 0.03}) == State.RULED_OUT
    assert state(cause, SLOW) == State.POSSIBLE


def test_a_solve_that_was_cut_short_is_seen_without_being_named() -> None:
    body = {"solver": {"time_limit_s": 10}, "solve": {"spent_s": 10, "gap": 0.25}}
    assert [own["symptom"] for own in answer(**body)["symptoms"]] == [SLOW]
    body["solve"] = {"spent_s": 10, "gap": 0.0}
    assert answer(**body)["symptoms"] == []
