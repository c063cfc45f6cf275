"""Which pipeline ranks share a path to host memory, a node's memory, or a node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from planner.cost.degrees import Degrees
from planner.cost.hardware import Cluster
from planner.cost.routes import Tier


@dataclass(frozen=True, slots=True)
class HostLinks:
    """Host side of the pipeline ranks.

    `link_of_rank` names the path shared with another rank, None for an own one. `sharers` is how
    many GPUs of one rank use one path at once: replicas and tensor ranks all run the same
    schedule. `host_of_rank` is the node, `gpus_per_host` how many GPUs of a rank offload there.
    """

    link_of_rank: tuple[str | None, ...]
    sharers: int
    host_of_rank: tuple[int, ...]
    gpus_per_host: int


def find_host_links(cluster: Cluster, degrees: Degrees) -> HostLinks:
    """Group pipeline ranks by the switches that their GPUs sit behind.

    Ranks whose GPUs meet on any switch form one link: exact where each rank sits behind one
    switch, and cautious where a rank of several GPUs spans several.
    """
    ranks_of_switch: dict[tuple[int, int], list[int]] = {}
    sharers = 1
    for rank in range(degrees.pipeline):
        here: dict[tuple[int, int], int] = {}
        for gpu in _telling(degrees.gpus_of_rank(rank), cluster.gpus_per_node):
            node, local = divmod(gpu, cluster.gpus_per_node)
            switch = (node, cluster.switch_of[local])
            here[switch] = here.get(switch, 0) + 1
        sharers = max(sharers, *here.values())
        for switch in here:
            ranks_of_switch.setdefault(switch, []).append(rank)
    root = list(range(degrees.pipeline))

    def find(rank: int) -> int:
        while root[rank] != rank:
            rank = root[rank]
        return rank

    for ranks in ranks_of_switch.values():
        for rank in ranks[1:]:
            low, high = sorted((find(ranks[0]), find(rank)))
            root[high] = low
    first = [find(rank) for rank in range(degrees.pipeline)]
    shared = {number for number in first if first.count(number) > 1}
    return HostLinks(
        link_of_rank=tuple(f"pcie {number}" if number in shared else None for number in first),
        sharers=sharers,
        host_of_rank=tuple(
            degrees.gpus_of_rank(rank)[0] // cluster.gpus_per_node
            for rank in range(degrees.pipeline)
        ),
        gpus_per_host=min(degrees.gpus_per_rank, cluster.gpus_per_node),
    )


def _telling(gpus: range, gpus_per_node: int) -> Iterable[int]:
    """Those of the first and last nodes: all nodes between are this rank's alone and alike."""
    if len(gpus) <= 3 * gpus_per_node:
        return gpus
    return chain(gpus[: 2 * gpus_per_node], gpus[-gpus_per_node:])


def rank_tier(cluster: Cluster, degrees: Degrees, rank: int, other: int) -> Tier:
    """The widest tier that the transfers between two pipeline ranks cross.

    Each GPU talks to its counterpart; one pair that crosses makes the transfer as slow.
    """
    gpus, others = sorted(
        (degrees.gpus_of_rank(rank), degrees.gpus_of_rank(other)), key=lambda own: own.start
    )
    distance = others.start - gpus.start
    if _leaves_block(gpus, distance, cluster.gpus_per_rack):
        return Tier.ACROSS_RACKS
    return Tier.RACK if _leaves_block(gpus, distance, cluster.gpus_per_node) else Tier.NODE


def _leaves_block(gpus: range, distance: int, size: int) -> bool:
    """Whether any of consecutive GPUs is in another block of so many than the one so far on."""
    first, last = gpus[0], gpus[-1]
    furthest_in_block = last % size if first // size == last // size else size - 1
    return furthest_in_block + distance >= size
