"""The ways on which pipeline ranks' activations leave the GPU: links, rates and what holds them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner.cost.degrees import Degrees
from planner.cost.hardware import Cluster
from planner.cost.links import HostLinks, find_host_links
from planner.cost.offload.host_tiers import AUTO, INTERLEAVE, LOCAL, Ssd, Tier
from planner.cost.routes import Route, host_route


@dataclass(frozen=True, slots=True)
class Store:
    """What holds activations of some ranks: bytes for each GPU of a rank, None without a limit."""

    memory_bytes: int | None
    name: str


@dataclass(frozen=True, slots=True)
class OffloadPath:
    """One tier as the pipeline ranks see it.

    `name` tells it from the usual one, host memory, whose name is empty. `link_of_rank` names a
    path shared with other ranks (`half_duplex_links`: those that read or write, not both),
    `route_of_rank` is a GPU's share of it while the rank's other GPUs use it too, and
    `store_of_rank` the number of the store in `stores`.
    """

    tier: Tier
    name: str
    link_of_rank: tuple[str | None, ...]
    half_duplex_links: frozenset[str]
    route_of_rank: tuple[Route, ...]
    store_of_rank: tuple[int, ...]
    stores: tuple[Store, ...]

    @property
    def is_limited(self) -> bool:
        """Whether the tier can be full."""
        return all(store.memory_bytes is not None for store in self.stores)


def dram_paths(cluster: Cluster, degrees: Degrees, links: HostLinks) -> list[OffloadPath]:
    """To host memory: one for each place to land that the cluster document leaves open."""
    landing = cluster.host_tiers.landing
    if landing != AUTO:
        return [_dram_path(cluster, degrees, links, landing, "")]
    return [
        _dram_path(cluster, degrees, links, LOCAL, ""),
        _dram_path(cluster, degrees, links, INTERLEAVE, "numa interleave"),
    ]


def ssd_path(cluster: Cluster, degrees: Degrees, links: HostLinks, ssd: Ssd) -> OffloadPath:
    """To the node's SSDs, which all its GPUs share and which write or read at a time.

    A GPU's rate is the lower of its share of them and of its own way to the host; which socket
    they are attached to is left out, as is their latency beyond the link's.
    """
    one_path = find_host_links(replace(cluster, switch_of=(0,) * cluster.gpus_per_node), degrees)
    links_named = tuple(
        f"ssd of rank {rank}" if link is None else link.replace("pcie", "ssd")
        for rank, link in enumerate(one_path.link_of_rank)
    )
    to_host = host_route(cluster, links.sharers)
    rate = min(to_host.bytes_per_s, ssd.bytes_per_s / one_path.sharers)
    return OffloadPath(
        tier=Tier.SSD,
        name="ssd",
        link_of_rank=links_named,
        half_duplex_links=frozenset(links_named),
        route_of_rank=(replace(to_host, bytes_per_s=rate),) * degrees.pipeline,
        store_of_rank=links.host_of_rank,
        stores=_node_stores(ssd.memory_bytes, links, "SSDs of node"),
    )


def _dram_path(
    cluster: Cluster, degrees: Degrees, links: HostLinks, landing: str | int, name: str
) -> OffloadPath:
    store_of_rank, stores = _dram_stores(cluster, degrees, links, landing)
    return OffloadPath(
        tier=Tier.DRAM,
        name=name,
        link_of_rank=links.link_of_rank,
        half_duplex_links=frozenset(),
        route_of_rank=tuple(
            _slowed(host_route(cluster, links.sharers), _numa_factor(cluster, gpus, landing))
            for gpus in map(degrees.gpus_of_rank, range(degrees.pipeline))
        ),
        store_of_rank=store_of_rank,
        stores=stores,
    )


def _slowed(route: Route, factor: float) -> Route:
    return replace(route, bytes_per_s=route.bytes_per_s * factor)


def _numa_factor(cluster: Cluster, gpus: range, landing: str | int) -> float:
    """A rank's GPUs run one schedule, so the one farthest from its memory sets their rate."""
    tiers = cluster.host_tiers
    if landing == LOCAL:
        return 1.0
    if landing == INTERLEAVE:
        return tiers.interleaved_factor
    all_local = all(tiers.socket_of[gpu % cluster.gpus_per_node] == landing for gpu in gpus)
    return 1.0 if all_local else tiers.remote_factor


def _dram_stores(
    cluster: Cluster, degrees: Degrees, links: HostLinks, landing: str | int
) -> tuple[tuple[int, ...], tuple[Store, ...]]:
    """Memory that lands at a socket is that socket's, an even part of the node's. Where ranks
    span sockets, local memory is counted by node, of which each GPU has an even part."""
    memory, tiers = cluster.host_memory_bytes, cluster.host_tiers
    if memory is None:
        return links.host_of_rank, _node_stores(None, links, "node")
    if isinstance(landing, int):
        socket = f"socket {landing} of node"
        return links.host_of_rank, _node_stores(memory // tiers.sockets, links, socket)
    if landing == INTERLEAVE or tiers.sockets == 1:
        return links.host_of_rank, _node_stores(memory, links, "node")
    places = [
        {
            (gpu // cluster.gpus_per_node, tiers.socket_of[gpu % cluster.gpus_per_node])
            for gpu in degrees.gpus_of_rank(rank)
        }
        for rank in range(degrees.pipeline)
    ]
    if any(len(own) > 1 for own in places):
        return links.host_of_rank, _node_stores(memory, links, "node")
    place_of_rank = [next(iter(own)) for own in places]
    known = sorted(set(place_of_rank))
    each = memory // tiers.sockets // degrees.gpus_per_rank
    return (
        tuple(known.index(place) for place in place_of_rank),
        tuple(Store(each, f"socket {socket} of node {node}") for node, socket in known),
    )


def _node_stores(memory_bytes: int | None, links: HostLinks, name: str) -> tuple[Store, ...]:
    """A rank stands for all its GPUs, which offload as much each: the limit is divided."""
    each = None if memory_bytes is None else memory_bytes // links.gpus_per_host
    return tuple(Store(each, f"{name} {node}") for node in range(max(links.host_of_rank) + 1))
