"""The pipeline ranks of a training as recomputation choices see them."""

from __future__ import annotations

from dataclasses import replace

from planner.cost.blocks import activation_shape
from planner.cost.build import CostModel
from planner.cost.footprint import RankFootprint, layer_workspace_bytes
from planner.cost.profile import ProfileDocument
from planner.cost.training import Recomputation
from planner.estimates.ranks import estimated_placement, rank_footprints
from planner.estimates.recomputation.checkpointing import Rank


def pipeline_ranks(costs: CostModel) -> list[Rank]:
    """The ranks of the placement that estimates assume, without any recomputation.

    What a choice saves and repeats is the difference between the cost model's layers with and
    without it; measured values of a profile count for the layer itself.
    """
    training = costs.training
    plain = _with(costs, Recomputation.NONE, training.profile)
    none, selective, full = (
        _with(costs, each, ProfileDocument()).blocks.layer
        for each in (Recomputation.NONE, Recomputation.SELECTIVE, Recomputation.FULL)
    )
    layer, embedding, head = plain.blocks.layer, plain.blocks.embedding, plain.blocks.head
    measured_ns = training.profile.layer.forward_ns
    formula_ns = full.backward_input_ns - none.backward_input_ns
    placement = estimated_placement(plain)
    per_stage = plain.layers_per_stage(placement)
    last = len(per_stage) - 1

    def rank(footprint: RankFootprint) -> Rank:
        stages = placement.stages_of(footprint.rank)
        compute_ns = footprint.layers * layer.compute_ns
        compute_ns += embedding.compute_ns * (0 in stages) + head.compute_ns * (last in stages)
        other_bytes = (
            footprint.static_bytes
            + footprint.gathered_parameters_bytes
            + footprint.communication.total_bytes
        )
        return Rank(
            rank=footprint.rank,
            layers=tuple(per_stage[stage] for stage in stages),
            held=footprint.held,
            layer_bytes=layer.activation_bytes,
            input_bytes=min(layer.activation_bytes, full.activation_bytes),
            scores_bytes=none.activation_bytes - selective.activation_bytes,
            workspace_bytes=footprint.workspace_bytes,
            selective_workspace_bytes=layer_workspace_bytes(
                costs.model, activation_shape(training), Recomputation.SELECTIVE
            ),
            embedding_bytes=embedding.activation_bytes if 0 in stages else 0,
            head_bytes=footprint.logits_bytes,
            forward_ns=formula_ns if measured_ns is None else measured_ns,
            scores_ns=selective.backward_input_ns - none.backward_input_ns,
            compute_ns=compute_ns,
            free_bytes=footprint.limit_bytes - footprint.reserved_bytes - other_bytes,
            other_bytes=other_bytes,
        )

    return [rank(footprint) for footprint in rank_footprints(plain)]


def _with(costs: CostModel, recomputation: Recomputation, profile: ProfileDocument) -> CostModel:
    training = replace(
        costs.training, recomputation=recomputation, split_backward=False, profile=profile
    )
    return CostModel.of(costs.model, costs.cluster, training)
