"""How alike two pipeline specs are: whose schedules fit each other, and whose come closest.

A schedule can be carried over where the shape is the same: the micro-batches, the objective, the
order, which device runs which stage, who shares links and hosts, and which stages have W and can
offload. Times, sizes and limits may differ; `distance` says by how much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from typing import Any

from planner.documents import canonical_hash
from planner.pipeline.documents import STAGE_QUANTITIES, TRANSFER_QUANTITIES, problem_to_document
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.spec import PipelineSpec

# Part of the shape, so that only profiles that list the same values are compared: raise it
# whenever `_values` changes.
PROFILE_FORMAT = 1
# What counts where only one of two problems has a value: as much as a factor of e between them.
ONE_SIDED = 1.0


def shape_hash(spec: PipelineSpec) -> str | None:
    """SHA-256 over the shapes of all candidates; None where there is no candidate."""
    if not spec.candidates:
        return None
    shapes = [[candidate.placement, _shape(candidate.problem)] for candidate in spec.candidates]
    return canonical_hash({"profile_format": PROFILE_FORMAT, "shapes": shapes})


def profile_of(spec: PipelineSpec) -> dict[str, Any] | None:
    """A small JSON document to compare specs of one shape by; None where there is no candidate.

    `values` are, for each candidate, the sums over micro-batches of every time and size of each
    stage and transfer, then the epilogues and limits (None = no limit). `without_limits` is a
    hash that is equal where the problems differ by nothing but limits.
    """
    if not spec.candidates:
        return None
    problems = [candidate.problem for candidate in spec.candidates]
    unlimited = [problem_to_document(_without_limits(p), names=False) for p in problems]
    return {
        "without_limits": canonical_hash({"problems": unlimited}),
        "values": [value for problem in problems for value in _values(problem)],
    }


def differs_only_in_limits(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two profiles are of the same problems but for memory limits."""
    return bool(one["without_limits"] == other["without_limits"])


def distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """The mean of |ln(a/b)| over the values of two profiles of one shape.

    Values that neither has (0, or no limit) are left out; one that only one of them has counts as
    a factor of e. 0 = alike; 0.1 = about 10 % apart.
    """
    pairs: Sequence[tuple[int | None, int | None]] = [
        (a, b) for a, b in zip(one["values"], other["values"], strict=True) if a or b
    ]
    ratios = [abs(log(a / b)) if a and b else ONE_SIDED for a, b in pairs]
    return sum(ratios) / len(ratios) if ratios else 0.0


def _shape(problem: PipelineProblem) -> dict[str, Any]:
    stages = range(len(problem.stages))
    links = [problem.link_of_stage[s] for s in stages]
    return {
        "micro_batches": problem.micro_batches,
        "micro_batch_order": problem.micro_batch_order.value,
        "objective": problem.objective.value,
        "device_of_stage": [stage.device for stage in problem.stages],
        "link_of_stage": [links.index(link) for link in links],
        "half_duplex": [problem.is_half_duplex(s) for s in stages],
        "host_of_device": [device.host for device in problem.devices],
        "has_weight": [any(stage.backward_weight_ns) for stage in problem.stages],
        "can_offload": [any(stage.offload_bytes) for stage in problem.stages],
        "hosts": len(problem.hosts),
    }


def _values(problem: PipelineProblem) -> list[int | None]:
    values: list[int | None] = []
    for stage in problem.stages:
        values += [sum(getattr(stage, name)) for name in STAGE_QUANTITIES]
    for transfer in problem.transfers:
        values += [sum(getattr(transfer, name)) for name in TRANSFER_QUANTITIES]
    for device in problem.devices:
        values += [device.epilogue_ns, device.activation_memory_bytes]
    return values + [host.memory_bytes for host in problem.hosts]


def _without_limits(problem: PipelineProblem) -> PipelineProblem:
    return replace(
        problem,
        devices=tuple(replace(d, activation_memory_bytes=None) for d in problem.devices),
        hosts=tuple(replace(host, memory_bytes=None) for host in problem.hosts),
    )
