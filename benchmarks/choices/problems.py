"""The problems of these tables, by name."""

from __future__ import annotations

import json

from benchmarks.common import FOLDER, PROBLEMS
from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.request import resolve_request
from planner.pipeline.spec import read_spec

EXAMPLES = FOLDER.parent / "planner" / "examples"
MODEL_MADE = {
    "GPT-3.6B, 8 x A100-40GB": "gpt-3.6b-8xA100-40GB",
    "GPT-14.2B, 8 x A100-40GB": "gpt-14.2b-8xA100-40GB",
}
"""Shipped examples, whose problems are estimated from model, GPU and link; one stage per GPU."""
ONE_STAGE_PER_DEVICE = "one_chunk"


def problem_named(name: str) -> PipelineProblem:
    """A problem of `benchmarks/problems`, or one made from a model."""
    if name in MODEL_MADE:
        return _from_model(MODEL_MADE[name])
    return read_problem(json.loads((PROBLEMS / f"{name}.json").read_text()))


def bubble(problem: PipelineProblem, makespan_ns: int) -> float:
    """The share of all devices' time within the makespan in which they do not compute."""
    busy_ns = sum(
        stage.compute_ns(m) for stage in problem.stages for m in range(problem.micro_batches)
    )
    return 1 - busy_ns / (len(problem.devices) * makespan_ns)


def _from_model(example: str) -> PipelineProblem:
    body = json.loads((EXAMPLES / f"{example}.json").read_text())
    spec = read_spec(resolve_request(body).spec)
    return next(c.problem for c in spec.candidates if c.placement == ONE_STAGE_PER_DEVICE)
