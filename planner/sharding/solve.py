"""A sharding solve from spec to answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from planner.errors import Interrupted
from planner.progress import Reporter
from planner.sharding.answer import infeasible_answer, succeeded_answer
from planner.sharding.folding import unfold
from planner.sharding.planning import Budget
from planner.sharding.restrict import least_memory_bytes
from planner.sharding.spec import ShardingSpec, read_spec
from planner.sharding.stage_answer import StageAnswer
from planner.sharding.stage_solve import StageSolve
from planner.sharding.stages import StageGraph
from planner.sharding.staging import divide_among_stages
from planner.sizes import gib

CLOSING_SHARE = 0.1
"""Of the time limit, kept for the baselines."""
MOST_DIVISIONS = 4
"""Divisions of the layers among stages that are tried where the peak of a stage is too high."""


def run(
    document: Mapping[str, Any],
    reporter: Reporter,
    should_stop: Callable[[], bool],
    start: Mapping[str, Any] | None,
    time_left_s: float,
) -> dict[str, Any]:
    """Solve the spec of a request; see `planner.pipeline.solve.run` for what the answer holds.

    `start` is not used: a plan is found from scratch within seconds.
    """
    del start
    began = time.monotonic()
    spec = read_spec(document)
    budget = Budget(began + time_left_s * (1 - CLOSING_SHARE), should_stop, reporter.log)
    try:
        return _solve(spec, began, budget, reporter)
    except Interrupted:
        return _failed("The solve was stopped before there was a plan.")


def _solve(spec: ShardingSpec, began: float, budget: Budget, reporter: Reporter) -> dict[str, Any]:
    reporter.phase("strategies")
    limits = list(spec.memory_limits)
    first: StageAnswer | None = None
    tried: set[tuple[int, ...]] = set()
    while len(tried) < MOST_DIVISIONS:
        stages = divide_among_stages(spec, limits)
        division = tuple(stage.layers for stage in stages)
        if division in tried:
            break
        tried.add(division)
        answers = _solve_stages(spec, stages, budget, reporter)
        last, number = answers[-1], len(answers) - 1
        if last.found.plan is not None:
            return succeeded_answer(spec, answers, time.monotonic() - began)
        if first is None and last.infeasibility is not None:
            return infeasible_answer(spec, last, time.monotonic() - began)
        first = first or last
        if spec.stages == 1 or last.found.peak_bytes is None or budget.is_over():
            break
        # The division saw to it that the stage can keep so many layers, but its peak is too high.
        limits[number] = least_memory_bytes(last.found.instance) - 1
    assert first is not None
    return _no_plan(spec, first)


def _solve_stages(
    spec: ShardingSpec, stages: Sequence[StageGraph], budget: Budget, reporter: Reporter
) -> list[StageAnswer]:
    """The answer of each stage, up to the first that has no plan."""
    answers: list[StageAnswer] = []
    for number, stage in enumerate(stages):
        reporter.phase("plan" if len(stages) == 1 else f"plan of stage {number}")
        graph = unfold(stage.graph) if spec.options.exact else stage.graph
        own = budget.share(len(stages) - number)
        solve = StageSolve(spec, graph, stage, spec.memory_limits[number], own)
        answers.append(solve.run(reporter))
        if answers[-1].found.plan is None:
            break
    return answers


def _no_plan(spec: ShardingSpec, answer: StageAnswer) -> dict[str, Any]:
    """The answer where nothing was found, nor proven that there is nothing."""
    of_stage = "" if spec.stages == 1 else f" for stage {answer.stage.number}"
    peak_bytes, limit_bytes = answer.found.peak_bytes, answer.limit_bytes
    if peak_bytes is None or limit_bytes is None:
        detail = (
            f"No plan{of_stage} was found within {spec.options.time_limit_s:g} s, nor was it "
            "proven that none fits."
        )
    else:
        least_bytes = least_memory_bytes(answer.found.instance)
        detail = (
            f"No plan{of_stage} was found whose predicted peak fits into the {gib(limit_bytes)} "
            f"of a device. Some plan keeps {gib(least_bytes)}, the least of all, but with what is "
            f"needed for a moment on top the least found is {gib(peak_bytes)} ({peak_bytes} bytes)."
            f"{_ways_out(answer)}"
        )
    return _failed(detail)


def _failed(detail: str) -> dict[str, Any]:
    return {"state": "failed", "code": "no_plan_within_limit", "detail": detail}


def _ways_out(answer: StageAnswer) -> str:
    """What a plan is known to fit with."""
    if answer.ways_out is None:
        return ""
    known = [remedy["change"] for remedy in answer.ways_out["remedies"] if remedy["fits"]]
    devices = answer.ways_out["smallest_devices"]
    if devices is not None:
        known.insert(0, f"{devices} devices")
    return f" What would do: {'; '.join(known)}." if known else ""
