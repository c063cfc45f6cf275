"""Which stored solve answers a request."""

from __future__ import annotations

from app.models import Solve, SolveState
from app.services.submission import choose

NOW = "2"


def solve(name: str, state: SolveState, **more: object) -> Solve:
    return Solve(
        id=name,
        state=state,
        created_at=1,
        **{"solver_version": NOW, "proven_optimal": False, "best_objective_ns": 9, **more},
    )


def test_a_result_comes_before_a_solve_in_flight() -> None:
    done = solve("done", SolveState.SUCCEEDED)
    running = solve("running", SolveState.RUNNING)
    choice = choose([running, done], NOW)
    assert (choice.answer, choice.in_flight, choice.stale) == (done, running, ())


def test_a_proof_comes_before_a_better_figure_and_that_before_age() -> None:
    proven = solve("proven", SolveState.SUCCEEDED, proven_optimal=True)
    better = solve("better", SolveState.SUCCEEDED, best_objective_ns=8)
    plain = solve("plain", SolveState.SUCCEEDED)
    assert choose([plain, better, proven], NOW).answer is proven
    assert choose([plain, better], NOW).answer is better


def test_only_unproven_plans_of_another_version_are_out_of_date() -> None:
    old = {"solver_version": "1"}
    unproven = solve("unproven", SolveState.SUCCEEDED, **old)
    others = [
        solve("proven", SolveState.SUCCEEDED, proven_optimal=True, **old),
        solve("infeasible", SolveState.INFEASIBLE, **old),
        solve("running", SolveState.RUNNING, **old),
    ]
    assert choose([unproven, *others], NOW).stale == (unproven,)
    assert choose([unproven], NOW).answer is None


def test_nothing_known_answers_nothing() -> None:
    choice = choose([], NOW)
    assert (choice.answer, choice.in_flight, choice.stale) == (None, None, ())
