"""Which of NCCL's algorithms suits a collective on a tier: what each sends, and how often it waits.

Of an array of S bytes over n ranks whose links carry B bytes/s with latency a:

- Ring: 2 (n-1) steps of S/n bytes each (nccl-tests); an all-gather or a reduce-scatter n - 1.
- Tree: two complementary binary trees, all-reduce only. 2 log2 n steps, and every byte once up and
  once down: 2 S / B, at 92 % of the ring's rate (src/graph/tuning.cc of NVIDIA/nccl). Between two
  nodes only S crosses (NVIDIA/nccl#946). In a node the tree is a chain, and saves no steps (#919).
- NVLS, NVLink SHARP: the NVSwitch adds up and multicasts. (n+1)/n S in a constant number of
  steps; NVLink 4 or later (NCCL user guide). No gain for all-gather and reduce-scatter (#1083,
  #1506).
- CollNet: the network's switches add up (InfiniBand SHARP). S in a constant number of steps (#457).
- PAT: all-gather and reduce-scatter in log2 n steps, from NCCL 2.23 on (#1473).

Ring and Tree take equally long at the size where what the ring waits more is what the tree sends
more: 2 (n - 1 - log2 n) a = (2 / 0.92 - 2 (n-1)/n) S / B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.cost.hardware import Cluster
from planner.cost.routes import Route, Tier, tier_route
from planner.estimates.communication.collectives import Collective, Operation

NVLINK_4_BYTES_PER_S, NVLINK_5_BYTES_PER_S = 450e9, 900e9
GPUS_BEHIND_NVSWITCH = 8
TREE_EFFICIENCY = 0.92
MIB = 2**20

_DIRECT = (Operation.SEND_RECEIVE, Operation.ALL_TO_ALL)


@dataclass(frozen=True, slots=True)
class Part:
    """The largest part of a group on a tier: `ranks` of it, each standing for `per_node` ranks of
    its own node, which share what crosses between nodes."""

    tier: Tier
    ranks: int
    per_node: int


@dataclass(frozen=True, slots=True)
class Advice:
    """An algorithm and why. `ring_s` and `tree_s` are one call on the part, None where only one of
    them exists; from `crossover_bytes` on the ring is the faster one."""

    algorithm: str
    reason: str
    ring_s: float | None = None
    tree_s: float | None = None
    crossover_bytes: int | None = None


def has_nvls(cluster: Cluster) -> bool:
    """Whether nodes can be taken to have NVLink SHARP: NVLink 4 or later, and enough GPUs that only
    an NVSwitch connects them all."""
    rate = cluster.gpu.nvlink_bytes_per_s or 0.0
    return rate >= NVLINK_4_BYTES_PER_S and cluster.gpus_per_node >= GPUS_BEHIND_NVSWITCH


def is_blackwell(cluster: Cluster) -> bool:
    """Whether the GPU can be taken to be of the Blackwell generation or later: NVLink 5."""
    return (cluster.gpu.nvlink_bytes_per_s or 0.0) >= NVLINK_5_BYTES_PER_S


def advise(cluster: Cluster, part: Part, sent: Collective, *, in_network: bool) -> Advice:
    """The algorithm for `sent` on one part of its group; `in_network` if switches of the network
    can add up."""
    if sent.operation in _DIRECT:
        return Advice(
            "point-to-point",
            "Each rank sends to its peers directly; NCCL_ALGO has no say in it.",
        )
    if sent.operation is not Operation.ALL_REDUCE:
        return _advise_halves(cluster, part, sent, in_network=in_network)
    if part.tier is Tier.NODE:
        return _advise_in_node(cluster, part)
    if in_network and part.ranks > 2:
        share = _ring_share(part.ranks)
        return Advice(
            "CollNet",
            f"Each node sends the array once and the switches add up, where a ring of {part.ranks} "
            f"sends it {share:.2f} times; the latency does not grow with the nodes.",
        )
    if sent.ranks == 2 * part.per_node and part.per_node > 1:
        return _advise_two_nodes(cluster, part, sent)
    return _advise_between_nodes(cluster, part, sent)


def _ring_share(ranks: int) -> float:
    """2 (n-1)/n: how many times the array a rank sends in a ring all-reduce."""
    return 2 * (ranks - 1) / ranks


def _advise_in_node(cluster: Cluster, part: Part) -> Advice:
    share = _ring_share(part.ranks)
    chain = "NCCL's tree is a chain within a node, which takes as many steps as the ring."
    if has_nvls(cluster) and part.ranks >= 4:
        return Advice(
            "NVLS",
            f"The NVSwitch adds up: a GPU sends {(part.ranks + 1) / part.ranks:.2f} times the "
            f"array instead of {share:.2f} times. {chain}",
        )
    why = "no NVSwitch of NVLink 4 or later is known of"
    if has_nvls(cluster):
        why = f"NVLS sends no less among {part.ranks}"
    return Advice("Ring", f"Sends {share:.2f} times the array, and {why}. {chain}")


def _advise_halves(cluster: Cluster, part: Part, sent: Collective, *, in_network: bool) -> Advice:
    """All-gather and reduce-scatter, for which NCCL has no tree. Switches do them only where the
    plugin offers it and each GPU has a network interface (src/graph/tuning.cc)."""
    share = f"A ring sends {part.ranks - 1}/{part.ranks} of the array, the least possible"
    if part.tier is Tier.NODE:
        why = "; NVLS would move all of it one way" if has_nvls(cluster) else ""
        return Advice("Ring", f"{share}{why}, and NCCL has no tree for it.")
    latency_s = (sent.ranks - 1) * tier_route(cluster, part.tier).latency_s
    if part.per_node == 1 and 2 * latency_s > sent.seconds:
        return Advice(
            "PAT",
            f"The {sent.ranks - 1} steps of a ring wait {latency_s * 1e3:.3f} of "
            f"{sent.seconds * 1e3:.3f} ms; PAT takes {_levels(sent.ranks)} steps (NCCL 2.23 or "
            "later, one rank per node).",
        )
    switches = (
        " Switches add up in it only where the plugin offers that and each GPU has a network "
        "interface of its own."
        if in_network
        else ""
    )
    return Advice("Ring", f"{share}, and NCCL has no tree for it.{switches}")


def _levels(ranks: int) -> int:
    return math.ceil(math.log2(ranks))


def _route_between_nodes(cluster: Cluster, part: Part) -> Route:
    """A node's way to the next: the network interfaces of all its ranks."""
    route = tier_route(cluster, part.tier)
    return Route(part.per_node * route.bytes_per_s, route.latency_s, route.memory_bytes_per_s)


def _advise_between_nodes(cluster: Cluster, part: Part, sent: Collective) -> Advice:
    route = _route_between_nodes(cluster, part)
    ranks, levels = part.ranks, _levels(part.ranks)
    ring_share, tree_share = _ring_share(ranks), (1 if ranks == 2 else 2) / TREE_EFFICIENCY
    ring_s = route.all_reduce_s(sent.size, ranks)
    steps_saved = 2 * (ranks - 1 - levels)
    more_on_links_s = (tree_share - ring_share) * sent.size / route.bytes_per_s
    tree_s = ring_s - steps_saved * route.latency_s + more_on_links_s
    crossover = round(steps_saved * route.latency_s * route.bytes_per_s / (tree_share - ring_share))
    compared = (
        f"Ring: {2 * (ranks - 1)} steps, {ring_s * 1e3:.3f} ms; tree: {2 * levels} steps, "
        f"{tree_s * 1e3:.3f} ms. "
    )
    if crossover:
        compared += (
            f"The ring is faster from {crossover / MIB:,.2f} MiB on; this is "
            f"{sent.size / MIB:,.2f} MiB. Gradient buckets below that size are the tree's."
        )
    else:
        compared += "The ring takes no more steps and sends less, whatever the size."
    algorithm = "Ring" if ring_s <= tree_s else _tree_name(cluster, part)
    return Advice(algorithm, compared, ring_s, tree_s, crossover)


def _advise_two_nodes(cluster: Cluster, part: Part, sent: Collective) -> Advice:
    """NCCL's ring goes through all ranks, so that nearly twice the array crosses between the nodes;
    its trees cross once."""
    route, link = _route_between_nodes(cluster, part), tier_route(cluster, Tier.NODE)
    waiting_s = 2 * ((part.per_node - 1) * link.latency_s + route.latency_s)
    on_links = max(sent.size / route.bytes_per_s, 2 * sent.size / link.bytes_per_s)
    in_memory = 2 * sent.size / route.memory_bytes_per_s
    tree_s = waiting_s + on_links / TREE_EFFICIENCY + in_memory
    compared = (
        f"Two nodes: of the ring {_ring_share(sent.ranks):.2f} times the array crosses between "
        f"them, of the tree once. Ring {sent.seconds * 1e3:.3f} ms, tree {tree_s * 1e3:.3f} ms."
    )
    algorithm = "Ring" if sent.seconds <= tree_s else _tree_name(cluster, part)
    return Advice(algorithm, compared, sent.seconds, tree_s)


def _tree_name(cluster: Cluster, part: Part) -> str:
    """With NVLS inside the nodes where several ranks lie in each."""
    return "NVLSTree" if has_nvls(cluster) and part.per_node >= 4 else "Tree"
