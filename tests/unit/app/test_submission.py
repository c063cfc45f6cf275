"""Which stored solve answers a request."""

from __future__ import annotations

from typing import Any

from app.models import SolveState
from app.repositories.solves import Candidate
from app.services.stored_answers import choose

NOW = "2"


def solve(name: str, state: SolveState, **more: Any) -> Candidate:
    plain = Candidate(
        id=name,
        spec_hash="spec",
        problem_hash="problem",
        engine="auto",
        solver_version=NOW,
        state=state,
        created_at=1,
        best_objective=9,
        lower_bound=None,
        proven_optimal=False,
    )
    return plain._replace(**more)


def test_a_result_comes_before_a_solve_in_flight() -> None:
    done = solve("done", SolveState.SUCCEEDED)
    running = solve("running", SolveState.RUNNING)
    choice = choose([running, done], [], None, 0.0, NOW)
    assert (choice.answer, choice.in_flight) == (done, running)


def test_a_proof_comes_before_a_better_figure_and_that_before_age() -> None:
    proven = solve("proven", SolveState.SUCCEEDED, proven_optimal=True)
    better = solve("better", SolveState.SUCCEEDED, best_objective=8)
    plain = solve("plain", SolveState.SUCCEEDED)
    assert choose([plain, better, proven], [], None, 0.0, NOW).answer is proven
    assert choose([plain, better], [], None, 0.0, NOW).answer is better


def test_only_unproven_plans_of_another_version_are_out_of_date() -> None:
    old: dict[str, Any] = {"solver_version": "1"}
    unproven = solve("unproven", SolveState.SUCCEEDED, **old)
    others = [
        solve("proven", SolveState.SUCCEEDED, proven_optimal=True, **old),
        solve("infeasible", SolveState.INFEASIBLE, **old),
        solve("running", SolveState.RUNNING, **old),
    ]
    assert choose([unproven], [], None, 0.0, NOW).answer is None
    for other in others:
        choice = choose([unproven, other], [], None, 0.0, NOW)
        assert other in (choice.answer, choice.in_flight)


def test_nothing_known_answers_nothing() -> None:
    choice = choose([], [], None, 0.0, NOW)
    assert (choice.answer, choice.in_flight) == (None, None)


def test_what_is_settled_elsewhere_comes_before_a_solve_in_flight_and_a_stale_plan() -> None:
    running = solve("running", SolveState.RUNNING)
    stale = solve("stale", SolveState.SUCCEEDED, solver_version="1")
    settled = solve("settled", SolveState.SUCCEEDED, proven_optimal=True)
    assert choose([running, stale], [settled], None, 0.0, NOW).answer is settled


def test_a_proof_elsewhere_comes_before_the_unproven_answer_of_the_identical_spec() -> None:
    unproven = solve("unproven", SolveState.SUCCEEDED, best_objective=9)
    settled = solve("settled", SolveState.SUCCEEDED, best_objective=9, proven_optimal=True)
    assert choose([unproven], [settled], None, 0.0, NOW).answer is settled
