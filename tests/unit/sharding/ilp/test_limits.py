"""Time limits, stops, gaps and crashes: whatever happens, what is claimed holds."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import mip
import pytest

from planner.errors import SolverCrash
from planner.milp import cbc, highs
from planner.milp.engine import EngineName
from planner.sharding.elimination import find_optimum
from planner.sharding.ilp import run
from planner.sharding.ilp.formulation import Formulation
from planner.sharding.ilp.solve import IlpResult, solve_instance
from planner.sharding.instance import Instance, totals
from planner.sharding.verify import find_violations
from tests.sharding_instances import chain
from tests.unit.milp.children import fake_solver
from tests.unit.sharding.ilp.solving import ENGINES, options, stop_after

ROOM_S = 2.0
EASY = chain(10, 4)
HARD = chain(150, 5, seed=3)
"""Takes the engines many seconds, and elimination none."""


@cache
def optimum_of(instance: Instance) -> float:
    plan = find_optimum(instance, most_entries=10**9)
    assert plan is not None
    return plan.objective


def check(instance: Instance, result: IlpResult) -> None:
    """The plan is valid, and the optimum lies between the bound and it."""
    assert result.plan is not None
    assert find_violations(instance, result.plan) == []
    assert result.plan.status == result.status
    assert result.lower_bound is not None
    assert result.plan.lower_bound == result.lower_bound
    optimum = optimum_of(instance)
    assert result.lower_bound <= optimum * (1 + 1e-9)
    assert result.plan.objective >= optimum * (1 - 1e-9)
    if result.status == "optimal":
        assert result.plan.objective == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize("limit_s", [0.1, 0.6, 1.5])
def test_the_time_limit_holds_and_so_does_the_bound(
    engine: EngineName, in_process: bool, limit_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LARGEST_IN_PROCESS", 10**6 if in_process else 0)
    begun = time.monotonic()
    result = solve_instance(HARD, **options(engine, limit_s))
    assert time.monotonic() - begun < limit_s + ROOM_S
    check(HARD, result)
    assert result.status == "optimal" or result.ended_by == "time_limit"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("in_process", [True, False])
@pytest.mark.parametrize("after_s", [0.0, 1.0])
def test_a_stop_keeps_the_best_plan_and_its_bound(
    engine: EngineName, in_process: bool, after_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LARGEST_IN_PROCESS", 10**6 if in_process else 0)
    begun = time.monotonic()
    result = solve_instance(HARD, **options(engine, 60, should_stop=stop_after(after_s)))
    assert time.monotonic() - begun < after_s + ROOM_S
    check(HARD, result)
    assert result.status == "optimal" or result.ended_by == "stopped"


def test_a_start_is_kept_if_nothing_better_is_found_and_not_used_if_it_does_not_fit() -> None:
    best = find_optimum(EASY)
    assert best is not None
    stopped = options(should_stop=lambda: True)
    result = solve_instance(EASY, **stopped, start=best.choice)
    assert result.plan is not None
    assert (result.plan.choice, result.ended_by) == (best.choice, "stopped")
    assert EASY.device_memory_bytes is not None
    largest = tuple(
        max(range(4), key=lambda k, o=operator: o.strategies[k].memory_bytes)  # type: ignore[misc]
        for operator in EASY.operators
    )
    assert totals(EASY, largest).memory_bytes > EASY.device_memory_bytes
    check(EASY, solve_instance(EASY, **stopped, start=largest))


def test_without_a_plan_within_the_limits_there_is_none_yet() -> None:
    least = solve_instance(EASY, **options(), objective="communication")
    assert least.plan is not None
    limit = round(least.plan.objective)
    stopped = solve_instance(
        EASY, **options(should_stop=lambda: True), communication_limit_bytes=limit
    )
    assert (stopped.plan, stopped.status, stopped.ended_by) == (None, "no_plan", "stopped")
    solved = solve_instance(EASY, **options(), communication_limit_bytes=limit)
    assert solved.plan is not None
    assert stopped.lower_bound is not None
    assert stopped.lower_bound <= solved.plan.objective


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gap_is_not_a_proof(engine: EngineName) -> None:
    result = solve_instance(HARD, **options(engine, mip_gap=0.5))
    check(HARD, result)
    assert (result.status, result.ended_by) == ("feasible", "gap")
    assert result.plan is not None
    assert result.lower_bound is not None
    assert result.plan.objective - result.lower_bound <= 0.5 * result.plan.objective


@pytest.mark.parametrize("engine", ENGINES)
def test_the_log_is_handed_on(engine: EngineName) -> None:
    lines: list[str] = []
    result = solve_instance(EASY, **options(engine, on_log=lines.append))
    assert result.log_tail == lines[-len(result.log_tail) :]
    assert any("BestBound" in line or "ptimal" in line for line in lines)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_library_that_crashes_is_told_with_the_end_of_its_log(
    engine: EngineName, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(formulation: Formulation, solver_name: str) -> mip.Model:
        os.write(1, b"last words\n")
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(run, "build_model", crash)
    with pytest.raises(SolverCrash, match="by signal 9") as error:
        solve_instance(EASY, **options(engine))
    assert error.value.log_tail == ["last words"]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_executable_that_crashes_is_told_with_the_end_of_its_log(
    engine: EngineName, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fake_solver(tmp_path, "echo last words\nexit 3\n")
    monkeypatch.setattr(cbc, "cbc_path", lambda: path)
    monkeypatch.setattr(highs, "highs_path", lambda: path)
    monkeypatch.setattr(run, "LARGEST_IN_PROCESS", 0)
    with pytest.raises(SolverCrash, match="exit status 3") as error:
        solve_instance(EASY, **options(engine))
    assert error.value.log_tail == ["last words"]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_calls_a_model_with_a_plan_infeasible_has_crashed(
    engine: EngineName, monkeypatch: pytest.MonkeyPatch
) -> None:
    def contradict(formulation: Formulation, solver_name: str) -> mip.Model:
        model = mip.Model(solver_name=solver_name)
        column = model.add_var(ub=1, var_type=mip.BINARY)
        model.add_constr(column >= 2)
        return model

    monkeypatch.setattr(run, "build_model", contradict)
    with pytest.raises(SolverCrash, match="no plan where there is one"):
        solve_instance(EASY, **options(engine))


def test_nothing_fits() -> None:
    result = solve_instance(replace(EASY, device_memory_bytes=0), **options())
    assert (result.status, result.plan, result.lower_bound) == ("infeasible", None, None)
    assert (result.columns, result.rounds) == (0, 0)
