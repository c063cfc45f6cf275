"""The engines' logs, as recorded from real runs."""

from __future__ import annotations

from functools import reduce
from pathlib import Path

import pytest

from planner.milp.cbc import is_without_gap
from planner.milp.cbc_log import LogState, read_cbc_line
from planner.milp.highs import read_highs_line

LOGS = Path(__file__).parent / "logs"


def read_cbc_log(lines: list[str]) -> LogState:
    """The state after a whole log."""
    return reduce(read_cbc_line, lines, LogState())


def lines_of(name: str) -> list[str]:
    return (LOGS / name).read_text().splitlines()


def test_a_proven_optimum() -> None:
    state = read_cbc_log(lines_of("cbc-optimal.log"))
    assert (state.best, state.proven, state.gap) == (453, 453, 0)


@pytest.mark.parametrize(
    ("name", "best", "bound", "result"),
    [
        ("cbc-time-limit.log", 1272, 443, "Stopped on time limit"),
        ("cbc-sigint.log", 81474, 62955, "User ctrl-cuser ctrl-c"),
        ("cbc-gap.log", 88017, 62932, "Optimal solution found (within gap tolerance)"),
    ],
)
def test_a_run_that_ended_early_keeps_its_bound(
    name: str, best: float, bound: float, result: str
) -> None:
    state = read_cbc_log(lines_of(name))
    assert (state.best, state.bound, state.result) == (best, bound, result)
    assert state.proven is None
    assert state.gap == pytest.approx((best - bound) / best)


def test_a_run_that_ended_in_the_root_relaxation_has_nothing() -> None:
    state = read_cbc_log(lines_of("cbc-root-limit.log"))
    assert (state.best, state.bound, state.proven) == (None, None, None)
    assert state.result is not None


@pytest.mark.parametrize("name", [path.name for path in LOGS.glob("cbc-*.log")])
def test_bounds_come_from_the_table_of_branch_and_bound_only(name: str) -> None:
    state = LogState()
    bounds = []
    for line in lines_of(name):
        before, state = state, read_cbc_line(state, line)
        if state.bound != before.bound:
            bounds.append(state.bound)
    assert bounds == sorted(bounds, key=lambda bound: bound or 0)
    assert all(bound is not None and bound <= 63443 for bound in bounds)


def test_an_optimum_with_a_lower_bound_below_it_is_not_proven() -> None:
    state = read_cbc_log(
        [
            "Result - Optimal solution found",
            "Objective value:                500",
            "Lower bound:                    480",
        ]
    )
    assert (state.best, state.bound, state.proven) == (500, 480, None)


@pytest.mark.parametrize(("bound", "is_proof"), [("977841", True), ("977800", False)])
def test_a_bound_printed_like_the_objective_leaves_no_gap(bound: str, is_proof: bool) -> None:
    state = read_cbc_log(
        [
            "Result - Optimal solution found (within gap tolerance)",
            "Objective value:                977840.927939",
            f"Lower bound:                    {bound}",
            "Gap:                            0",
        ]
    )
    assert state.proven is None
    assert is_without_gap(state) == is_proof


@pytest.mark.parametrize("name", [path.name for path in LOGS.glob("cbc-*.log")])
def test_no_other_run_is_without_a_gap(name: str) -> None:
    assert not is_without_gap(read_cbc_log(lines_of(name)))


def test_rows_with_a_new_incumbent_or_none() -> None:
    header = "     Nodes   OnTree  Depth         BestSol Method     BestBound     Gap%   Time(s)"
    found = read_cbc_log(
        [header, " ★       0        0      0           20 DiveCoefficient     18.5    7.50%  0.220"]
    )
    assert (found.best, found.bound) == (20, 18.5)
    without = read_cbc_log([header, "         0        1      0                  22   -   0.270"])
    assert (without.best, without.bound) == (None, 22)


def test_infeasible_models_are_called_so() -> None:
    line = "Bound tightening: infeasibility proved — skipping solve."
    assert read_cbc_log([line]).result == "Infeasible"


def highs_state(name: str) -> LogState:
    state = LogState()
    for line in lines_of(name):
        state = read_highs_line(state, line)
    return state


def test_highs_at_its_optimum() -> None:
    state = highs_state("highs-optimal.log")
    assert (state.best, state.bound, state.result) == (453, 453, "Optimal")


def test_highs_at_its_time_limit() -> None:
    state = highs_state("highs-time-limit.log")
    assert (state.best, state.bound, state.result) == (71226, 63202, "Time limit reached")
