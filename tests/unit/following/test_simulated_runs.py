"""Simulated runs, the short form of `benchmarks.following`: what following gains and never does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.following.policies import Following, Outcome, oracle, static
from benchmarks.following.report import (
    ABOVE_ORACLE,
    ABOVE_STATIC,
    MOST_SWAPS_ON_JITTER,
    Row,
    missed,
    record_of,
)
from benchmarks.following.scenarios import Scenario, lost_node, pipeline, steady, straggler
from benchmarks.following.solves import Plan, Solver, one_f_one_b
from planner.following.settings import FollowSettings
from planner.pipeline.problem import PipelineProblem

ITERATIONS = 500
SMALL = pipeline(devices=4, micro_batches=8)


@pytest.fixture(scope="module")
def solver() -> Solver:
    return Solver(100)


@pytest.fixture(scope="module")
def plan(solver: Solver) -> Plan:
    found = solver.solve(SMALL)
    assert found is not None
    return found


def followed(scenario: Scenario, plan: Plan, solver: Solver) -> Outcome:
    return Following(scenario, plan, solver, FollowSettings()).run()


def test_with_a_straggler_following_comes_close_to_the_oracle(plan: Plan, solver: Solver) -> None:
    scenario = straggler(SMALL, ITERATIONS)
    row = Row(
        scenario,
        None,
        static(scenario, plan),
        followed(scenario, plan, solver),
        oracle(scenario, plan, solver),
    )
    assert row.over_oracle <= ABOVE_ORACLE
    assert row.over_static < -0.01
    assert row.following.swaps == 1
    assert row.following.broken_limits == 0
    measured = [e.detail for e in row.following.events if e.kind == "confirmed"]
    assert len(measured) == 1
    assert "measured +" in measured[0]
    assert list(missed(row)) == []
    record = record_of([row], {"machine": "one"})
    assert record.tables[0].rows[0][0] == "straggler"
    assert record.tables[0].rows[0][-1] == "met"
    assert record.figures[0].value == row.following.total_ns / 1e9
    late = replace(row, following=replace(row.following, total_ns=2 * row.oracle.total_ns))
    assert list(missed(late)) == ["oracle"]
    assert record_of([late], {}).tables[0].rows[0][-1] == "oracle: MISSED"


@pytest.mark.parametrize(("jitter", "seed"), [(0.01, 1), (0.03, 2), (0.1, 3)])
def test_jitter_alone_leads_to_hardly_any_swap(
    jitter: float, seed: int, plan: Plan, solver: Solver
) -> None:
    scenario = steady(SMALL, jitter=jitter, seed=seed, iterations=ITERATIONS)
    following = followed(scenario, plan, solver)
    assert following.swaps <= MOST_SWAPS_ON_JITTER
    assert following.total_ns <= static(scenario, plan).total_ns * (1 + ABOVE_STATIC)


def test_after_a_lost_node_the_run_restarts_with_a_plan_of_its_shape(
    plan: Plan, solver: Solver
) -> None:
    smaller = pipeline(devices=3, micro_batches=8, scale=4 / 3)
    scenario = replace(lost_node(SMALL, smaller), iterations=950)
    outcome = followed(scenario, plan, solver)
    assert outcome.total_ns <= oracle(scenario, plan, solver).total_ns * (1 + ABOVE_ORACLE)
    assert outcome.broken_limits == 0
    asked = [event.detail for event in outcome.events if event.kind == "solve_asked"]
    assert "shape_change" in asked[0]


class Flatterer(Solver):
    """Says of 1F1B, which is slower than what runs, that it saves a tenth."""

    def solve(
        self,
        problem: PipelineProblem,
        running: Plan | None = None,
        noise: Sequence[float] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Plan | None:
        found = one_f_one_b(problem)
        assert found is not None
        return replace(found, replacement={"gain": 0.1, "gain_low": 0.09, "running_fits": True})


def test_a_plan_that_is_worse_than_it_was_said_to_be_costs_little(plan: Plan) -> None:
    scenario = straggler(SMALL, ITERATIONS)
    outcome = followed(scenario, plan, Flatterer(1))
    assert outcome.rollbacks == 1
    assert outcome.swaps == 2
    assert outcome.total_ns <= static(scenario, plan).total_ns * 1.01
