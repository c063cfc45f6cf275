"""Which memory holds what of the activations in flight: HBM, then the host's, then the SSDs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planner.cost.memory import ceil_div
from planner.cost.offload.paths import OffloadPath
from planner.estimates.offload.ranks import RankOffload


@dataclass(frozen=True, slots=True)
class Held:
    """What one tier holds of a rank's activations: `held_bytes` as they are on the GPU,
    `stored_bytes` as they are in the tier. `transfer_ns` is what its part of each micro-batch takes
    on the way, in one direction."""

    tier: str
    held_bytes: int
    stored_bytes: int
    transfer_ns: int


@dataclass(frozen=True, slots=True)
class RankTiers:
    """A rank's activations by tier, and what none of them holds."""

    rank: int
    tiers: tuple[Held, ...]
    missing_bytes: int


def fill_tiers(
    ways: Sequence[tuple[OffloadPath, Sequence[RankOffload]]],
) -> list[RankTiers]:
    """Each rank's micro-batches in flight, the faster tier filled first.

    `ways` has a path for each tier below HBM, the faster first, and the ranks as it sees them.
    Where a store is too small for all ranks that use it, each gets the same share of what it
    wants. What cannot be offloaded stays in HBM, or is missing where that has no room.
    """
    ranks = ways[0][1]
    in_hbm = [min(rank.kept_bytes, max(0, rank.room_bytes)) for rank in ranks]
    held = [[Held("hbm", size, size, 0)] for size in in_hbm]
    missing = [rank.kept_bytes - size for rank, size in zip(ranks, in_hbm, strict=True)]
    movable = [rank.movable_bytes for rank in ranks]
    for path, seen in ways:
        wanted = [min(m, left) for m, left in zip(movable, missing, strict=True)]
        for number, size in enumerate(_granted(path, seen, wanted)):
            held[number].append(_held(path, seen[number], size))
            missing[number] -= size
            movable[number] -= size
    return [
        RankTiers(rank.rank, tuple(own), left)
        for rank, own, left in zip(ranks, held, missing, strict=True)
    ]


def _granted(path: OffloadPath, ranks: Sequence[RankOffload], wanted: Sequence[int]) -> list[int]:
    """Bytes of each rank's activations, before compression, that its store takes."""
    in_all = [0] * len(path.stores)
    for rank, size in zip(ranks, wanted, strict=True):
        in_all[rank.store] += _stored(rank, size)
    granted = []
    for rank, size in zip(ranks, wanted, strict=True):
        limit, asked = path.stores[rank.store].memory_bytes, in_all[rank.store]
        granted.append(size if limit is None or asked <= limit else size * limit // asked)
    return granted


def _stored(rank: RankOffload, size: int) -> int:
    """What so many bytes take in the store, compressed as the rank compresses."""
    return ceil_div(size * rank.host_bytes, rank.offload_bytes) if rank.offload_bytes else 0


def _held(path: OffloadPath, rank: RankOffload, size: int) -> Held:
    part = size / rank.movable_bytes if rank.movable_bytes else 0.0
    return Held(path.tier.value, size, _stored(rank, size), round(part * rank.offload_ns))
