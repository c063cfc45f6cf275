"""Reading a whole spec: model, cluster and training, as a client posts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.cost.build import Candidate, CostModel
from planner.cost.hardware import read_cluster
from planner.cost.model import read_model
from planner.cost.training import read_training
from planner.errors import SpecError
from planner.pipeline.documents import STAGE_QUANTITIES, TRANSFER_QUANTITIES
from planner.pipeline.problem import LARGEST_VALUE, PipelineProblem

LARGEST_OPERATIONS = 1_000_000

Spec = Mapping[str, Any] | str


def read_cost_model(model: Spec, cluster: Spec, training: Mapping[str, Any]) -> CostModel:
    """Read and check the three documents. Raises `SpecError` that names the field at fault."""
    model_read = read_model(model)
    cluster_read = read_cluster(cluster)
    training_read = read_training(training, model_read, cluster_read)
    operations = 3 * training_read.degrees.pipeline * training_read.micro_batches
    if operations > LARGEST_OPERATIONS:
        raise SpecError(
            ("training", "micro_batches"),
            f"gives {operations:,} operations; at most {LARGEST_OPERATIONS:,}.",
            "Give fewer micro-batches or stages.",
        )
    costs = CostModel.of(model_read, cluster_read, training_read)
    for name in ("embedding", "layer", "head"):
        block = getattr(costs.blocks, name)
        if block.offload_bytes > block.activation_bytes:
            raise SpecError(
                ("training", "profile", name, "offload_bytes"),
                f"offloads {block.offload_bytes:,} of {block.activation_bytes:,} bytes.",
                "Give at most the block's activation_bytes.",
            )
    return costs


def checked_candidates(costs: CostModel) -> tuple[Candidate, ...]:
    """The placements that leave room for activations, none where none does.

    Raises `SpecError` where times or sizes leave the range of the formats.
    """
    candidates = costs.candidates()
    for candidate in candidates:
        _check_range(candidate.problem)
    return candidates


def _check_range(problem: PipelineProblem) -> None:
    rows = [getattr(stage, name)[0] for stage in problem.stages for name in STAGE_QUANTITIES]
    rows += [getattr(t, name)[0] for t in problem.transfers for name in TRANSFER_QUANTITIES]
    rows += [device.epilogue_ns for device in problem.devices]
    if max(rows) > LARGEST_VALUE:
        raise SpecError(
            ("model",), "leads to times or sizes above 2^53.", "Check its sizes and the rates."
        )
