"""From model, cluster and training to pipeline problems, one per placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.cost.build import Candidate, DeviceNeed
from planner.cost.hardware import Cluster
from planner.cost.model import Model
from planner.cost.notes import Note, notes_of
from planner.cost.parameters import ParameterCounts, count_parameters
from planner.cost.remedies import Remedy, spec_remedies, try_remedies
from planner.cost.spec import Spec, checked_candidates, read_cost_model
from planner.cost.training import Training
from planner.errors import PlannerError
from planner.pipeline.problem import PipelineProblem
from planner.sizes import gib

__all__ = [
    "Candidate",
    "Remedy",
    "Resolved",
    "StaticMemoryExceeded",
    "resolve",
    "spec_remedies",
]


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a spec comes to: a problem for each placement that fits, and every assumption."""

    candidates: tuple[Candidate, ...]
    notes: list[Note]
    parameters: ParameterCounts
    model: Model
    cluster: Cluster
    training: Training

    @property
    def model_parameters(self) -> int:
        """All parameters of the model."""
        return self.parameters.total


class StaticMemoryExceeded(PlannerError):
    """Parameters, gradients and optimizer states leave no room on some device, in any placement.

    `needs` are the devices at fault with one chunk per device; `remedies` what was tried.
    """

    def __init__(
        self,
        *,
        needs: tuple[DeviceNeed, ...],
        reserved_bytes: int,
        capacity_bytes: int,
        remedies: tuple[Remedy, ...],
        notes: list[Note],
    ) -> None:
        self.needs = needs
        self.reserved_bytes = reserved_bytes
        self.capacity_bytes = capacity_bytes
        self.remedies = remedies
        self.notes = notes
        worst = max(needs, key=lambda need: need.static_bytes)
        self.summary = (
            f"Device {worst.device} needs {gib(worst.static_bytes)} for parameters, gradients "
            f"and optimizer states and {gib(reserved_bytes)} in reserve; it has "
            f"{gib(capacity_bytes)}."
        )
        super().__init__(self.summary)

    def to_document(self) -> dict[str, Any]:
        """The infeasibility as JSON; lists of bytes have one entry per entry of `devices`.

        `bytes` is states and reserve, `limit_bytes` the device's memory and
        `smallest_limit_bytes` the memory with which one micro-batch at a time would fit. No
        micro-batches are named: none gets to start.
        """
        return {
            "placement": "one_chunk",
            "summary": self.summary,
            "devices": [need.device for need in self.needs],
            "micro_batches": [],
            "bytes": [need.static_bytes + self.reserved_bytes for need in self.needs],
            "limit_bytes": [self.capacity_bytes] * len(self.needs),
            "smallest_limit_bytes": [
                need.static_bytes + self.reserved_bytes + need.micro_batch_bytes
                for need in self.needs
            ],
            "remedies": [remedy.to_document() for remedy in self.remedies],
        }


def resolve(model: Spec, cluster: Spec, training: Mapping[str, Any]) -> Resolved:
    """Problems for every placement of the pipeline, from what a client posts.

    Raises `SpecError` for whatever is wrong with the documents, and `StaticMemoryExceeded` with
    remedies where no placement leaves room for activations.
    """
    costs = read_cost_model(model, cluster, training)
    candidates = checked_candidates(costs)
    if not candidates:
        capacity, reserved = costs.cluster.memory_bytes, costs.cluster.reserved_bytes
        raise StaticMemoryExceeded(
            needs=tuple(
                need
                for need in costs.needs()
                if need.static_bytes + reserved + need.micro_batch_bytes > capacity
            ),
            reserved_bytes=reserved,
            capacity_bytes=capacity,
            remedies=try_remedies(model, cluster, training, _one_micro_batch_fits),
            notes=notes_of(costs, ()),
        )
    return Resolved(
        candidates=candidates,
        notes=notes_of(costs, candidates),
        parameters=count_parameters(costs.model),
        model=costs.model,
        cluster=costs.cluster,
        training=costs.training,
    )


def _one_micro_batch_fits(candidates: tuple[Candidate, ...]) -> bool:
    """Whether in some placement every device holds one micro-batch at a time, nothing offloaded."""

    def fits(problem: PipelineProblem, device: int) -> bool:
        stages = [problem.stages[s] for s in problem.stages_of_device[device]]
        kept = sum(stage.activation_bytes[0] for stage in stages)
        added = max(stage.backward_allocation_bytes(0) for stage in stages)
        limit = problem.devices[device].activation_memory_bytes
        return limit is None or kept + added <= limit

    return any(
        all(fits(candidate.problem, device) for device in range(len(candidate.problem.devices)))
        for candidate in candidates
    )
