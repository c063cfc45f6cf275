"""The memory of a training's pipeline ranks in the placement that estimates assume."""

from __future__ import annotations

from collections.abc import Iterable

from planner.cost.build import CostModel
from planner.cost.footprint import RankFootprint, footprints
from planner.cost.placement import Placement, interleaved


def estimated_placement(costs: CostModel) -> Placement:
    """The interleaving asked for; one chunk per device where it is left open."""
    training = costs.training
    return interleaved(training.degrees.pipeline, training.interleaving or 1)


def rank_footprints(costs: CostModel) -> tuple[RankFootprint, ...]:
    """What each pipeline rank holds, with the layers given or else balanced."""
    placement = estimated_placement(costs)
    return footprints(costs, placement.chunks, costs.layers_per_stage(placement))


def tightest(ranks: Iterable[RankFootprint]) -> RankFootprint:
    """The rank with the least room left."""
    return min(ranks, key=lambda rank: rank.headroom_bytes)
