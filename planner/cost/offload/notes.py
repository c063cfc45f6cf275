"""What is assumed about where activations go and how."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cost.build import Candidate, CostModel
from planner.cost.note import Note, note
from planner.cost.offload.compression import Compression, Compressor
from planner.cost.offload.host_tiers import AUTO, INTERLEAVE, LOCAL, Tier
from planner.cost.offload.paths import OffloadPath
from planner.cost.offload.screening import MOST_CANDIDATES
from planner.sizes import gib

GB = 1e9


def offload_notes(costs: CostModel, candidates: Sequence[Candidate]) -> list[Note]:
    """Of each tier and compression that the documents leave open, and which of them are tried."""
    paths = {variant.path.name: variant.path for variant in costs.variants}
    compressors = {variant.compressor.kind: variant.compressor for variant in costs.variants}
    notes = [found for path in paths.values() for found in _path_notes(costs, path)]
    for compressor in compressors.values():
        if compressor.is_lossy:
            notes += _compression_notes(compressor)
    if len(costs.variants) > 1 and candidates:
        notes.append(_ways_note(costs, candidates))
    return notes


def _ways_note(costs: CostModel, candidates: Sequence[Candidate]) -> Note:
    tried = {candidate.offload for candidate in candidates}

    def listed(is_tried: bool) -> str:
        names = [variant.name for variant in costs.variants if (variant.name in tried) == is_tried]
        return "; ".join(name or "as it is, to host memory" for name in names) or "none"

    return note(
        "ways to offload",
        f"tried: {listed(True)}. Left out: {listed(False)}",
        "Each that is tried gives a problem for each placement. Left out are those that another is "
        "never worse than, all but the first where all micro-batches fit at once, and where there "
        f"would be more than {MOST_CANDIDATES} problems those that seem slower from their links "
        "and stores: post them alone to have them solved. An optimum is proven among those tried.",
    )


def _path_notes(costs: CostModel, path: OffloadPath) -> list[Note]:
    suffix = f" ({path.name})" if path.name else ""
    rates = sorted({route.bytes_per_s for route in path.route_of_rank})
    shared = sum(name is not None for name in path.link_of_rank)
    store = path.stores[0].memory_bytes
    if path.tier is Tier.SSD:
        basis = (
            "ssd_bytes_per_s as given, shared by the GPUs of a rank in a node, and no more than "
            "the GPU's way to the host. The node's ranks take turns, and it writes or reads at a "
            "time; its latency is taken as the link's."
        )
        what, link_basis = "SSD", "All GPUs of a node share its SSDs."
    else:
        sharers = costs.links.sharers
        basis = f"PCIe peak x {costs.cluster.efficiency.pcie:g}, shared by {sharers} GPU(s) of a "
        basis += f"rank{_numa_basis(costs)}."
        what = "host"
        link_basis = "pcie_switches or pcie_topology, else as in the GPU's usual machine."
    return [
        note(
            f"between GPU and {what}{suffix}",
            " or ".join(f"{rate / GB:.1f}" for rate in rates) + " GB/s each way",
            basis,
        ),
        note(
            f"shared {what} links{suffix}",
            f"{shared} of {len(path.link_of_rank)} ranks share theirs",
            link_basis,
        ),
        note(
            f"{what} memory{suffix}",
            "no limit" if store is None else gib(store),
            f"For each GPU of a rank, in {path.stores[0].name} and its like.",
        ),
    ]


def _numa_basis(costs: CostModel) -> str:
    tiers = costs.cluster.host_tiers
    if tiers.sockets == 1:
        return ""
    places: dict[str | int, str] = {
        LOCAL: "each GPU's own socket",
        INTERLEAVE: "pages of all sockets in turn",
        AUTO: "each GPU's own socket, or pages of all sockets in turn",
    }
    place = places.get(tiers.landing, f"socket {tiers.landing}")
    return (
        f", to {place}; x {tiers.remote_factor:g} to another socket's memory (numa_remote_factor); "
        "the GPU of a rank that is farthest from its memory sets the rate"
    )


def _compression_notes(compressor: Compressor) -> list[Note]:
    if compressor.kind is Compression.FP8:
        value = "1 byte per element and an fp32 scale for each 128"
        basis = "Micikevicius et al. 2022 (arXiv 2209.05433); groups as in DeepSeek-V3 (2412.19437)"
    else:
        value = f"{compressor.kept_share:.1%} of the elements with 4-byte positions, the rest zero"
        basis = "Bian et al. 2023 (arXiv 2301.02654): accuracy suffers far more than from FP8"
    name = compressor.kind.value
    return [
        note(
            f"{name} offloads",
            f"{value}: {compressor.factor:.1%} of the bytes",
            f"{basis}. Lossy: gradients change; used because training.offload_compression asks "
            "for it. Masks and token numbers travel as they are.",
        ),
        note(
            f"{name} compression",
            "before each offload's and after each reload's transfer, on the stream of the copies",
            "Bytes read and written over device memory's rate; what it takes of the computation's "
            "is left out.",
        ),
    ]
