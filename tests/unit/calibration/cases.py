"""Runs on GPUs whose true factors are known."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from planner.calibration.observations import Observation
from planner.calibration.observe import observe
from planner.cost.resolve import resolve
from planner.following.estimates import Estimate, Estimates
from planner.following.profile import planned
from planner.following.telemetry import TIMES
from planner.pipeline.classic.schedules import one_forward_one_backward_schedule
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp

GPU = "H100-80GB"
TRUE = {"compute": 0.5, "pcie": 0.5, "nvlink": 0.6, "network": 0.4}
SHAPES: tuple[dict[str, Any], ...] = (
    {
        "model": "GPT-2",
        "cluster": {"gpu": "H100", "nodes": 4, "gpus_per_node": 4},
        "training": {"micro_batches": 8, "micro_batch_size": 4, "pipeline_parallel": 4},
    },
    {
        "model": "Llama-3-8B",
        "cluster": {"gpu": "H100", "nodes": 1, "gpus_per_node": 8},
        "training": {
            "micro_batches": 8,
            "micro_batch_size": 2,
            "pipeline_parallel": 4,
            "tensor_parallel": 2,
        },
    },
    {
        "model": "Llama-3-8B",
        "cluster": {"gpu": "H100", "nodes": 2, "gpus_per_node": 4},
        "training": {"micro_batches": 8, "micro_batch_size": 2, "pipeline_parallel": 8},
    },
)


def request_of(shape: int) -> dict[str, Any]:
    """The request of a run with one placement, so that a plan can be given."""
    case = SHAPES[shape % len(SHAPES)]
    return {**case, "training": {**case["training"], "interleaving": 1}}


def base_of(request: Mapping[str, Any]) -> PipelineProblem:
    return resolve(request["model"], request["cluster"], request["training"]).candidates[0].problem


def true_problem(request: Mapping[str, Any], true: Mapping[str, float]) -> PipelineProblem:
    """What GPUs with these factors take, with the layers of the request's own plan."""
    resolved = resolve(request["model"], request["cluster"], request["training"])
    layers = list(resolved.candidates[0].layers_per_stage)
    cluster = {**request["cluster"], "efficiency": dict(true)}
    training = {**request["training"], "layers_per_stage": layers}
    return resolve(request["model"], cluster, training).candidates[0].problem


def estimate(value: float, error: float = 0.0) -> Estimate:
    return Estimate(value, error, error, 50, 0, 1)


def measured(problem: PipelineProblem, noise: float = 0.0, seed: int = 0) -> dict[Any, Estimate]:
    """Every time that the problem tells of, each off by a relative normal error."""
    drawn = random.Random(seed)
    found = {}
    for stage in range(len(problem.stages)):
        for quantity in TIMES:
            time_ns = planned(problem, (stage, quantity))
            if time_ns:
                value = time_ns * max(0.1, drawn.gauss(1, noise))
                found[stage, quantity] = estimate(value)
    return found


def plan_of(problem: PipelineProblem) -> tuple[TimedOp, ...]:
    return tuple(one_forward_one_backward_schedule(problem).schedule.ops)


def observation(
    number: int,
    true: Mapping[str, float] = TRUE,
    noise: float = 0.0,
    peaks: Mapping[int, float] | None = None,
) -> Observation:
    """The run of this number; `peaks` are measured peaks in bytes, by stage."""
    request = request_of(number)
    base = base_of(request)
    estimates: Estimates = {
        **measured(true_problem(request, true), noise, number),
        **{(s, "peak_memory_bytes"): estimate(value) for s, value in (peaks or {}).items()},
    }
    return observe(f"run-{number:03}", request, base, estimates, plan_of(base) if peaks else ())
