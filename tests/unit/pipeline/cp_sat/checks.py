"""Checks that load OR-Tools; `apart.run_apart` runs them in an interpreter of their own."""

from __future__ import annotations

import random
from dataclasses import replace

from planner.pipeline.cp_sat import search
from planner.pipeline.cp_sat.model import build_model
from planner.pipeline.cp_sat.neighbourhoods import KINDS, NeighbourhoodSearch
from planner.pipeline.cp_sat.readback import best_schedule
from planner.pipeline.cp_sat.scale import TimeScale
from planner.pipeline.cp_sat.search import improve_here
from planner.pipeline.cp_sat.solving import Assignment, RunLimits, run_solver
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import MicroBatchOrder, Objective, PipelineProblem
from planner.pipeline.verify import verify
from tests.brute_force import least_objective
from tests.random_schedules import random_schedule
from tests.unit.pipeline.cp_sat.solving import Remembering, never, settings
from tests.unit.pipeline.milp.brute_force import ExhaustiveSearch, TooLarge
from tests.unit.pipeline.milp.problems import MS, balanced
from tests.unit.pipeline.milp.random_problems import random_problem

MOST_NODES = 1500
MOST_FREE_OPERATIONS = 12
LIMITS = RunLimits(time_s=30.0, threads=1, seed=1)
WINDOWS_PER_SEED = 3


def proven_optimum(problem: PipelineProblem, seed: int) -> int:
    """The objective that CP-SAT proves optimal; every claim on the way there is checked."""
    report = Remembering()
    start = sequential_schedule(problem)
    outcome = improve_here(problem, start, settings(), report, never)
    best = outcome.schedule or start
    value = objective_ns(problem, best)
    assert not verify(problem, best), seed
    assert outcome.status == "optimal", seed
    assert outcome.lower_bound_ns == value, seed
    assert all(bound <= value for bound in report.bounds), seed
    return value


def proven_optima(seeds: range) -> list[int]:
    """The optimum of each random problem."""
    return [proven_optimum(random_problem(seed), seed) for seed in seeds]


def check_against_exhaustive_search(seeds: range) -> int:
    """How many problems were small enough for it."""
    searched = 0
    for seed in seeds:
        problem = random_problem(seed)
        value = proven_optimum(problem, seed)
        try:
            assert ExhaustiveSearch(problem, MOST_NODES).find_below(value) is None, seed
            searched += 1
        except TooLarge:
            continue
    return searched


def check_free_order(seeds: range) -> int:
    """How many problems were small enough to time every order."""
    searched = 0
    for seed in seeds:
        problem = replace(random_problem(seed), micro_batch_order=MicroBatchOrder.FREE)
        too_large = problem.operations > MOST_FREE_OPERATIONS or problem.can_offload
        if too_large or problem.objective is not Objective.MAKESPAN:
            continue
        assert proven_optimum(problem, seed) == least_objective(problem), seed
        searched += 1
    return searched


def check_windows(seeds: range) -> tuple[set[str], int]:
    """Which kinds of window were tried, and how many helped."""
    improved = 0
    kinds = set()
    for seed in seeds:
        problem = random_problem(seed)
        if seed % 4 == 3:
            problem = replace(problem, micro_batch_order=MicroBatchOrder.FREE)
        best = random_schedule(problem, random.Random(seed))
        windows = NeighbourhoodSearch(
            problem, TimeScale.coarsest(problem), seed, first_size=(4, 8, 16, 40)[seed % 4]
        )
        for _ in range(WINDOWS_PER_SEED):
            scope = windows.next_scope(best, 0)
            if scope is None:
                continue
            kinds.add(windows.kind)
            found: list[Assignment] = []
            run = run_solver(build_model(scope), LIMITS, found.append, lambda _: None, never)
            assert run.status == "optimal", seed
            schedule = best_schedule(problem, windows.assembled(found[-1], scope))
            assert schedule is not None, seed
            assert not verify(problem, schedule), seed
            gain = objective_ns(problem, best) - objective_ns(problem, schedule)
            assert gain >= 0, seed
            improved += gain > 0
            windows.learn(run, gain > 0)
            best = schedule
    assert kinds <= set(KINDS)
    return kinds, improved


def check_neighbourhoods_alone() -> None:
    """They improve a start until a known bound ends the search, and claim no bound."""
    search.WHOLE_AT_ONCE = search.WHOLE_AT_ALL = 0
    problem = balanced()
    start = sequential_schedule(problem)
    found: list[int] = []
    report = Remembering()
    known = settings(15.0, lower_bound_ns=453 * MS)
    outcome = improve_here(
        problem, start, known, report, never, lambda s: found.append(s.makespan_ns)
    )
    assert outcome.schedule is not None
    assert not verify(problem, outcome.schedule)
    assert outcome.schedule.makespan_ns == found[-1] < start.makespan_ns
    assert found == sorted(found, reverse=True)
    assert outcome.lower_bound_ns is None
    assert report.bounds == []
    assert {entry["kind"] for entry in outcome.rounds} <= set(KINDS)


def bounds_in_ns(unit_ns: int, objective: Objective, units: list[float]) -> list[int]:
    """What bounds in units say in nanoseconds."""
    return [TimeScale(unit_ns, objective).bound_ns(value) for value in units]
