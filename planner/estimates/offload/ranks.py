"""What offloading its activations takes of each pipeline rank's way to the host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from planner.cost.blocks import Block
from planner.cost.build import CostModel
from planner.cost.footprint import RankFootprint
from planner.cost.offload.paths import OffloadPath
from planner.cost.offload.variants import OffloadVariant
from planner.cost.routes import Route
from planner.estimates.ranks import estimated_placement, rank_footprints
from planner.pipeline.problem import Duplex


@dataclass(frozen=True, slots=True)
class RankOffload:
    """One pipeline rank, per GPU and micro-batch, all its chunks together.

    Of each micro-batch `offload_bytes` can leave the GPU and take `host_bytes` in the store.
    `offload_ns` and `reload_ns` are as the problem of a schedule has them, a transfer for each
    layer and the embedding, `transfers` of them. `link` is equal for ranks that share one, and
    `is_half_duplex` says that it carries one transfer at a time. `kept_bytes` is what the
    micro-batches in flight under 1F1B keep, `movable_bytes` what of it can leave, and `room_bytes`
    what the GPU has for it.
    """

    rank: int
    compute_ns: int
    transfers: int
    offload_bytes: int
    host_bytes: int
    offload_ns: int
    reload_ns: int
    route: Route
    link: str
    is_half_duplex: bool
    store: int
    kept_bytes: int
    movable_bytes: int
    room_bytes: int


class PipelineRanks:
    """The ranks of the placement that estimates assume, for any way to offload."""

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs
        self._placement = estimated_placement(costs)
        self._layers = costs.layers_per_stage(self._placement)
        self._footprints = rank_footprints(costs)

    def offloading(self, variant: OffloadVariant) -> list[RankOffload]:
        """What each rank offloads in this way."""
        stages = self._costs.stage_costs(self._placement, self._layers, variant)
        blocks: list[list[Block]] = [[] for _ in self._footprints]
        for stage in stages:
            blocks[stage.device].append(stage.block)
        return [
            self._rank(footprint, variant.path, own)
            for footprint, own in zip(self._footprints, blocks, strict=True)
        ]

    def _rank(
        self, footprint: RankFootprint, path: OffloadPath, own: Sequence[Block]
    ) -> RankOffload:
        device, cluster = footprint.rank, self._costs.cluster
        link = path.link_of_rank[device]
        is_half = link in path.half_duplex_links or cluster.host_link_duplex is Duplex.HALF
        kept = footprint.activations_bytes + footprint.embedding_activations_bytes
        return RankOffload(
            rank=device,
            compute_ns=sum(block.compute_ns for block in own),
            transfers=footprint.layers + (device == 0),
            offload_bytes=sum(block.offload_bytes for block in own),
            host_bytes=sum(block.host_bytes for block in own),
            offload_ns=sum(block.offload_ns for block in own),
            reload_ns=sum(block.reload_ns for block in own),
            route=path.route_of_rank[device],
            link=f"own of rank {device}" if link is None else link,
            is_half_duplex=is_half,
            store=path.store_of_rank[device],
            kept_bytes=kept,
            movable_bytes=sum(
                count * block.offload_bytes
                for count, block in zip(footprint.held, own, strict=True)
            ),
            room_bytes=footprint.headroom_bytes + kept,
        )


def busy_ns_by_link(ranks: Sequence[RankOffload]) -> dict[str, int]:
    """How long each link is busy for each micro-batch if all of its ranks offload every one: O and
    R one after the other where it is half duplex, else the longer of the two directions."""
    offload_ns: dict[str, int] = defaultdict(int)
    reload_ns: dict[str, int] = defaultdict(int)
    half_duplex = {rank.link for rank in ranks if rank.is_half_duplex}
    for rank in ranks:
        offload_ns[rank.link] += rank.offload_ns
        reload_ns[rank.link] += rank.reload_ns
    return {
        link: ns + reload_ns[link] if link in half_duplex else max(ns, reload_ns[link])
        for link, ns in offload_ns.items()
    }


def link_documents(ranks: Sequence[RankOffload]) -> list[dict[str, Any]]:
    """Each link with its ranks, and how much of its work fits beside the computation."""
    available_ns = period_ns(ranks)
    ranks_of: dict[str, list[RankOffload]] = defaultdict(list)
    for rank in ranks:
        ranks_of[rank.link].append(rank)
    return [
        {
            "link": link,
            "ranks": [rank.rank for rank in ranks_of[link]],
            "duplex": "half" if ranks_of[link][0].is_half_duplex else "full",
            "busy_ns": busy_ns,
            "available_ns": available_ns,
            "hidden_share": round(hidden_share(busy_ns, available_ns), 4),
            "exposed_ns": max(0, busy_ns - available_ns),
        }
        for link, busy_ns in busy_ns_by_link(ranks).items()
    ]


def period_ns(ranks: Sequence[RankOffload]) -> int:
    """Time between two micro-batches where nothing but computation counts: F + B + W of the
    slowest rank."""
    return max(rank.compute_ns for rank in ranks)


def hidden_share(busy_ns: int, available_ns: int) -> float:
    """How much of a link's work fits beside the computation; as large a share of the micro-batches
    can be offloaded without slowing the pipeline down."""
    return min(1.0, available_ns / busy_ns) if busy_ns else 1.0
