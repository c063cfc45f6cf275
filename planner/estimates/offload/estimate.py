"""What offloading activations takes: chunks, the way to the host, compression and memory tiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Annotated, Any

from pydantic import Field

from planner.cost.build import CostModel
from planner.cost.note import Note, note
from planner.cost.notes import notes_of
from planner.cost.offload.compression import Compression, Compressor
from planner.cost.offload.paths import OffloadPath, dram_paths, ssd_path
from planner.cost.offload.variants import OffloadVariant
from planner.documents import FiniteNumber, PositiveWhole
from planner.estimates.offload.chunking import (
    Chunking,
    best_chunk_bytes,
    best_chunking,
    chunking_of,
    source_chunk,
)
from planner.estimates.offload.ranks import (
    PipelineRanks,
    RankOffload,
    busy_ns_by_link,
    hidden_share,
    link_documents,
    period_ns,
)
from planner.estimates.offload.tiers import RankTiers, fill_tiers
from planner.estimates.request import EstimateRequest, read_costs, read_request
from planner.sizes import gib

Share = Annotated[FiniteNumber, Field(ge=0, le=1)]


class OffloadRequest(EstimateRequest):
    """The documents, and what to look at in them. `training.offload` counts as true."""

    bytes_to_move: PositiveWhole | None = Field(
        default=None,
        description="Moved in chunks; default: what the rank that offloads for longest sends to "
        "the host for each micro-batch.",
    )
    chunk_bytes: PositiveWhole | None = Field(
        default=None, description="A chunk size of your own to compare."
    )
    overlap: Share | None = Field(
        default=None,
        description="In the published chunk formula; default: the share of that rank's transfers "
        "which is predicted to be hidden.",
    )


def estimate_offload(body: Mapping[str, Any]) -> dict[str, Any]:
    """Chunk size, effective time, compression and tiers of a training's offloads.

    Raises `SpecError` that names the field at fault.
    """
    request = read_request(OffloadRequest, body)
    training = {**request.training, "offload": True}
    costs = read_costs(request.model_copy(update={"training": training}))
    variant, pipeline = costs.variants[0], PipelineRanks(costs)
    ranks = pipeline.offloading(variant)
    largest = max(ranks, key=lambda rank: rank.offload_ns)
    tiers = _tiers(costs, pipeline, variant.compressor)
    links = link_documents(ranks)
    exposed_ns = {link["link"]: link["exposed_ns"] for link in links}
    return {
        "rank": largest.rank,
        "offloads": variant.name or "as they are, to host memory",
        "chunk": _chunk_document(request, costs, largest, _hidden(ranks, largest)),
        "per_rank": [_rank_document(rank, exposed_ns[rank.link]) for rank in ranks],
        "links": links,
        "compression": _compression_documents(costs, pipeline, variant.path, largest.rank),
        "tiers": [_tiers_document(own) for own in tiers],
        "assumptions": [*_notes(), *notes_of(costs, ())],
        "warnings": _warnings(links, tiers),
    }


def _hidden(ranks: Sequence[RankOffload], rank: RankOffload) -> float:
    return hidden_share(busy_ns_by_link(ranks)[rank.link], period_ns(ranks))


def _rank_document(rank: RankOffload, exposed_ns: int) -> dict[str, Any]:
    """`round_trip_of_compute` is PipeOffload's k: O and R over the rank's own F + B + W.
    `exposed_ns` is what the link, with the others' transfers, is busy for beyond the computation.
    """
    round_trip_ns = rank.offload_ns + rank.reload_ns
    return {
        "rank": rank.rank,
        "offload_bytes": rank.offload_bytes,
        "host_bytes": rank.host_bytes,
        "bytes_per_s": round(rank.route.bytes_per_s),
        "latency_ns": round(rank.route.latency_s * 1e9),
        "link": rank.link,
        "offload_ns": rank.offload_ns,
        "reload_ns": rank.reload_ns,
        "exposed_ns": exposed_ns,
        "compute_ns": rank.compute_ns,
        "round_trip_of_compute": round(round_trip_ns / rank.compute_ns, 4)
        if rank.compute_ns
        else None,
    }


def _chunk_document(
    request: OffloadRequest, costs: CostModel, rank: RankOffload, hidden: float
) -> dict[str, Any]:
    size = request.bytes_to_move or rank.host_bytes
    overlap = hidden if request.overlap is None else request.overlap
    route, hbm_bytes_per_s = rank.route, costs.cluster.hbm_bytes_per_s
    source = source_chunk(route.bytes_per_s, hbm_bytes_per_s, route.latency_s, overlap)
    document: dict[str, Any] = {
        "bytes_to_move": size,
        "formula": "c = sqrt(A B T): A bytes to move, B bytes/s of the link, T s to start a chunk",
        "unit": "bytes: bytes x bytes/s x s is bytes squared",
        "formula_bytes": round(best_chunk_bytes(size, route)) if size else None,
        "source_formula": {
            "formula": "c = sqrt(B G T / (2 (1 - overlap))), G bytes/s of device memory",
            "overlap": round(overlap, 4),
            "unit": "bytes per square root of a second, not bytes",
            "value": None if source is None else round(source),
            "value_in_milliseconds": None if source is None else round(source / sqrt(1000)),
            "remarks": _source_remarks(overlap),
        },
    }
    if not size:
        return document | {"best": None, "compare": []}
    compare = {
        "one chunk": Chunking(size, 1, route),
        "a chunk per layer, as in the problem of a schedule": Chunking(size, rank.transfers, route),
    }
    if source is not None:
        compare["the published formula's number read as bytes"] = chunking_of(
            size, max(1, round(source)), route
        )
    if request.chunk_bytes is not None:
        compare["chunk_bytes as asked"] = chunking_of(size, request.chunk_bytes, route)
    rows = [{"chunking": name} | _chunking_document(each) for name, each in compare.items()]
    return document | {"best": _chunking_document(best_chunking(size, route)), "compare": rows}


def _source_remarks(overlap: float) -> list[str]:
    remarks = [
        "Its value depends on the unit of time: counted in milliseconds instead of seconds the "
        "number is sqrt(1000) times smaller, while a chunk stays as long as it is.",
        "It does not know how many bytes there are to move.",
    ]
    if overlap >= 1:
        remarks.append("It has no value where everything overlaps: 1 - overlap is 0.")
    return remarks


def _chunking_document(chunking: Chunking) -> dict[str, Any]:
    return {
        "chunks": chunking.chunks,
        "chunk_bytes": chunking.chunk_bytes,
        "link_ns": round(chunking.link_s * 1e9),
        "lost_ns": round(chunking.lost_s * 1e9),
    }


def _compression_documents(
    costs: CostModel, pipeline: PipelineRanks, path: OffloadPath, rank: int
) -> list[dict[str, Any]]:
    """Each compression on the same path, for one rank."""
    size, share = costs.training.element_bytes, costs.training.offload_choice.top_k
    compressors = [Compressor(Compression.NONE, size), Compressor(Compression.FP8, size)]
    if share is not None:
        compressors.append(Compressor(Compression.TOP_K, size, share))
    documents = []
    for compressor in compressors:
        ranks = pipeline.offloading(OffloadVariant(compressor, path))
        own = ranks[rank]
        documents.append(
            {
                "compression": compressor.kind.value,
                "changes_numerics": compressor.is_lossy,
                "element_factor": round(compressor.factor, 6),
                "offload_bytes": own.offload_bytes,
                "host_bytes": own.host_bytes,
                "offload_ns": own.offload_ns,
                "reload_ns": own.reload_ns,
                "link_busy_ns": busy_ns_by_link(ranks)[own.link],
                "hidden_share": round(_hidden(ranks, own), 4),
            }
        )
    return documents


def _tiers(costs: CostModel, pipeline: PipelineRanks, compressor: Compressor) -> list[RankTiers]:
    cluster, degrees, links = costs.cluster, costs.training.degrees, costs.links
    paths = dram_paths(cluster, degrees, links)[:1]
    if cluster.host_tiers.ssd is not None:
        paths.append(ssd_path(cluster, degrees, links, cluster.host_tiers.ssd))
    return fill_tiers(
        [(path, pipeline.offloading(OffloadVariant(compressor, path))) for path in paths]
    )


def _tiers_document(own: RankTiers) -> dict[str, Any]:
    return {
        "rank": own.rank,
        "tiers": [
            {
                "tier": held.tier,
                "held_bytes": held.held_bytes,
                "stored_bytes": held.stored_bytes,
                "transfer_ns": held.transfer_ns,
            }
            for held in own.tiers
        ],
        "missing_bytes": own.missing_bytes,
    }


def _notes() -> list[Note]:
    return [
        note(
            "chunks",
            "each costs the link's latency, and the last one's transfer is not hidden",
            "A stage's activation becomes ready evenly while it computes. The schedule's problem "
            "moves a layer at a time.",
        ),
        note(
            "hidden transfers",
            "as much as the slowest rank's F + B + W, once per micro-batch",
            "Steady state, every micro-batch offloaded; ranks behind one link take turns, half "
            "duplex links carry one direction at a time (PipeOffload, arXiv 2503.01328: free up to "
            "k = 1).",
        ),
        note(
            "tiers",
            "micro-batches in flight under 1F1B; HBM first, then host memory, then SSDs",
            "What a schedule keeps in flight may differ. transfer_ns is what the tier's part of "
            "each micro-batch takes in one direction.",
        ),
    ]


def _warnings(links: Sequence[Mapping[str, Any]], tiers: Sequence[RankTiers]) -> list[str]:
    found = []
    slowest = min(links, key=lambda link: float(link["hidden_share"]))
    if slowest["exposed_ns"]:
        found.append(
            "Offloading every micro-batch would slow the pipeline down: the link "
            f"{slowest['link']} is busy for {slowest['busy_ns'] / 1e6:.3g} ms per micro-batch, "
            f"computation takes {slowest['available_ns'] / 1e6:.3g} ms. Offload at most "
            f"{slowest['hidden_share']:.0%} of them, spread ranks over more PCIe switches, or "
            "(lossy) compress."
        )
    short = [own for own in tiers if own.missing_bytes]
    if short:
        worst = max(short, key=lambda own: own.missing_bytes)
        found.append(
            f"{len(short)} of {len(tiers)} ranks hold less than 1F1B keeps; rank {worst.rank} "
            f"lacks {gib(worst.missing_bytes)} in all tiers together. Give more host memory or "
            "SSDs, recompute, or keep fewer micro-batches in flight at the price of a bubble."
        )
    return found
