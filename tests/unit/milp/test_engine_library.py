"""The engines' libraries in a child: what they prove, and what is left of a run cut short."""

from __future__ import annotations

import random
import time

import mip
import pytest

from planner.errors import SolverCrash
from planner.milp.cbc_log import LogState
from planner.milp.engine import EngineLimits, EngineName, EngineRun
from planner.milp.engine_library import solve_with_library

ENGINES: tuple[EngineName, EngineName] = ("cbc", "highs")
ROOM_S = 1.5


def knapsacks(items: int, rows: int, seed: int = 1) -> list[list[int]]:
    """Costs, and weights per row: hard to prove with hundreds of items and tens of rows."""
    numbers = random.Random(seed)
    return [[numbers.randint(300, 1000) for _ in range(items)] for _ in range(rows + 1)]


def build(sizes: list[list[int]], solver_name: str, *, share: float = 0.5) -> mip.Model:
    costs, *weights = sizes
    model = mip.Model(sense=mip.MINIMIZE, solver_name=solver_name)
    columns = [model.add_var(obj=cost, var_type=mip.BINARY) for cost in costs]
    for row in weights:
        model.add_constr(mip.LinExpr(columns, row, -share * sum(row), ">"))
    return model


def solve(
    sizes: list[list[int]],
    engine: EngineName,
    time_limit_s: float = 30.0,
    mip_gap: float = 0.0,
    *,
    share: float = 0.5,
    stop_after_s: float = 1e9,
) -> EngineRun:
    begun = time.monotonic()
    return solve_with_library(
        lambda name: build(sizes, name, share=share),
        engine,
        EngineLimits(time_limit_s, mip_gap, 1),
        on_line=lambda line, state: None,
        should_stop=lambda: time.monotonic() > begun + stop_after_s,
    )


def value(sizes: list[list[int]], run: EngineRun) -> float:
    assert run.values is not None
    chosen = [round(x) for x in run.values]
    for row in sizes[1:]:
        assert sum(w * x for w, x in zip(row, chosen, strict=True)) >= 0.5 * sum(row)
    return sum(c * x for c, x in zip(sizes[0], chosen, strict=True))


def test_both_engines_prove_the_same_optimum() -> None:
    sizes = knapsacks(20, 3)
    runs = [solve(sizes, engine) for engine in ENGINES]
    assert [run.status for run in runs] == ["optimal", "optimal"]
    assert value(sizes, runs[0]) == value(sizes, runs[1])
    for run in runs:
        assert run.bound == pytest.approx(value(sizes, run), rel=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_without_solutions_is_called_infeasible(engine: EngineName) -> None:
    run = solve(knapsacks(20, 3), engine, share=1.5)
    assert (run.status, run.values, run.bound) == ("infeasible", None, None)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_that_ends_at_its_gap_proves_no_optimum(engine: EngineName) -> None:
    sizes = knapsacks(40, 5)
    run = solve(sizes, engine, mip_gap=0.3)
    assert run.status == "gap"
    assert run.bound is not None
    assert 0.7 * value(sizes, run) <= run.bound < value(sizes, run)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_out_of_time_keeps_its_solution_and_its_bound(engine: EngineName) -> None:
    sizes = knapsacks(300, 60)
    begun = time.monotonic()
    run = solve(sizes, engine, 1.5)
    assert time.monotonic() - begun < 1.5 + ROOM_S
    assert run.status == "time_limit"
    assert run.bound is not None
    assert run.bound < value(sizes, run)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stop_kills_the_library_and_leaves_no_more_than_a_bound(engine: EngineName) -> None:
    begun = time.monotonic()
    run = solve(knapsacks(300, 60), engine, 60.0, stop_after_s=1.0)
    assert time.monotonic() - begun < 1.0 + ROOM_S
    assert (run.status, run.values) == ("stopped", None)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_log_is_handed_on_with_what_it_has_said(engine: EngineName) -> None:
    states: list[LogState] = []
    solve_with_library(
        lambda name: build(knapsacks(20, 3), name),
        engine,
        EngineLimits(30.0, 0.0, 1),
        on_line=lambda line, state: states.append(state),
        should_stop=lambda: False,
    )
    assert states[-1].best is not None
    assert states[-1].result is not None
    assert "ptimal" in states[-1].result


@pytest.mark.parametrize("engine", ENGINES)
def test_a_model_that_cannot_be_built_is_a_crash(engine: EngineName) -> None:
    def fail(name: str) -> mip.Model:
        raise IndexError("no such column")

    with pytest.raises(SolverCrash) as crash:
        solve_with_library(
            fail, engine, EngineLimits(30.0, 0.0, 1), lambda line, state: None, lambda: False
        )
    assert crash.value.log_tail[-1] == "IndexError: no such column"
