"""The problems of these tables, by name."""

from __future__ import annotations

import json
from dataclasses import replace

from benchmarks.common import FOLDER, PROBLEMS
from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.request import resolve_request
from planner.pipeline.spec import read_spec

EXAMPLES = FOLDER.parent / "planner" / "examples"
TWO_A_SWITCH = ", two GPUs a switch"
"""At the end of the name of a problem whose devices have links of their own: as if each two of them
shared one."""
MODEL_MADE = {
    "GPT-1.5B, 8 x A100-40GB": "gpt-1.5b-8xA100-40GB",
    "GPT-3.6B, 8 x A100-40GB": "gpt-3.6b-8xA100-40GB",
    "GPT-7.1B, 8 x A100-40GB": "gpt-7.1b-8xA100-40GB",
    "GPT-14.2B, 8 x A100-40GB": "gpt-14.2b-8xA100-40GB",
}
"""Shipped examples, whose problems are estimated from model, GPU and link; one stage per GPU."""
ONE_STAGE_PER_DEVICE = "one_chunk"


def problem_named(name: str) -> PipelineProblem:
    """A problem of `benchmarks/problems`, or one made from a model."""
    if name in MODEL_MADE:
        return _from_model(MODEL_MADE[name])
    own = name.removesuffix(TWO_A_SWITCH)
    problem = read_problem(json.loads((PROBLEMS / f"{own}.json").read_text()))
    return problem if own == name else _two_a_switch(problem)


def bubble(problem: PipelineProblem, makespan_ns: int) -> float:
    """The share of all devices' time within the makespan in which they do not compute."""
    busy_ns = sum(
        stage.compute_ns(m) for stage in problem.stages for m in range(problem.micro_batches)
    )
    return 1 - busy_ns / (len(problem.devices) * makespan_ns)


def _two_a_switch(problem: PipelineProblem) -> PipelineProblem:
    devices = tuple(
        replace(device, host_link=f"switch {d // 2}") for d, device in enumerate(problem.devices)
    )
    return replace(problem, devices=devices)


def _from_model(example: str) -> PipelineProblem:
    document = json.loads((EXAMPLES / f"{example}.json").read_text())
    body = {part: document[part] for part in ("model", "cluster", "training")}
    spec = read_spec(resolve_request(body).spec)
    return next(c.problem for c in spec.candidates if c.placement == ONE_STAGE_PER_DEVICE)
