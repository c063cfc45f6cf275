"""The ways to offload that a spec leaves open: compression, tier and socket.

Each gives problems of its own, of which the schedule solver finds the best. Lossy compression is
among them only where the training document asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from planner.cost.degrees import Degrees
from planner.cost.hardware import Cluster
from planner.cost.links import HostLinks
from planner.cost.offload.compression import Compression, Compressor, largest_useful_share
from planner.cost.offload.host_tiers import AUTO, Share, Tier
from planner.cost.offload.paths import OffloadPath, dram_paths, ssd_path
from planner.documents import Document
from planner.errors import SpecError

Path = tuple[str | int, ...]


class OffloadDocument(Document):
    """How activations are offloaded, where they are."""

    offload_compression: Literal["none", "fp8", "top_k", "auto"] = Field(
        default="none",
        description="Lossy: it changes the gradients. `auto`: none, fp8 and, where `offload_top_k` "
        "is given, top_k; whichever gives the better schedule.",
    )
    offload_top_k: Share | None = Field(
        default=None, description="Share of the elements that top_k keeps, such as 0.1."
    )
    offload_tier: Literal["dram", "ssd", "auto"] = Field(
        default="dram", description="Host memory, the node's SSDs, or whichever is better."
    )


@dataclass(frozen=True, slots=True)
class OffloadChoice:
    """The document's fields, checked."""

    compression: str
    top_k: float | None
    tier: str


def read_offload_choice(
    document: OffloadDocument, element_bytes: int, cluster: Cluster, path: Path
) -> OffloadChoice:
    """Check the fields against each other and the cluster. Raises `SpecError`."""
    share = document.offload_top_k
    compression: str = document.offload_compression
    tier: str = document.offload_tier
    if compression == Compression.TOP_K and share is None:
        raise SpecError(
            (*path, "offload_top_k"),
            "is required for top_k.",
            "Give the share of the elements to keep, such as 0.1.",
        )
    if share is not None:
        if compression not in (Compression.TOP_K, AUTO):
            raise SpecError(
                (*path, "offload_top_k"),
                f"has no meaning with offload_compression {compression}.",
                "Remove it, or choose top_k or auto.",
            )
        largest = largest_useful_share(element_bytes)
        if share >= largest:
            raise SpecError(
                (*path, "offload_top_k"),
                f"{share:g} of the values with their positions take as much as all values.",
                f"Give less than {largest:.3f}.",
            )
    if tier == Tier.SSD and cluster.host_tiers.ssd is None:
        raise SpecError(
            (*path, "offload_tier"),
            "the cluster has no SSDs.",
            "Give the cluster's ssd_bytes_per_s and ssd_memory_bytes.",
        )
    return OffloadChoice(compression, share, tier)


@dataclass(frozen=True, slots=True)
class OffloadVariant:
    """One way to offload: how activations are compressed, and where they go."""

    compressor: Compressor
    path: OffloadPath

    @property
    def name(self) -> str:
        """What tells it from offloading as it is to host memory, whose name is empty."""
        kind = self.compressor.kind.value if self.compressor.is_lossy else ""
        return ", ".join(part for part in (kind, self.path.name) if part)

    @property
    def lossiness(self) -> int:
        """Higher where compression costs more accuracy."""
        return list(Compression).index(self.compressor.kind)


def offload_variants(
    choice: OffloadChoice,
    element_bytes: int,
    cluster: Cluster,
    degrees: Degrees,
    links: HostLinks,
) -> tuple[OffloadVariant, ...]:
    """Every variant that the documents leave open; lossless ones first."""
    paths: list[OffloadPath] = []
    if choice.tier in (Tier.DRAM, AUTO):
        paths += dram_paths(cluster, degrees, links)
    ssd = cluster.host_tiers.ssd
    if choice.tier in (Tier.SSD, AUTO) and ssd is not None:
        paths.append(ssd_path(cluster, degrees, links, ssd))
    return tuple(
        OffloadVariant(compressor, path)
        for compressor in _compressors(choice, element_bytes)
        for path in paths
    )


def _compressors(choice: OffloadChoice, element_bytes: int) -> list[Compressor]:
    kinds = [Compression.NONE, Compression.FP8, Compression.TOP_K]
    if choice.compression != AUTO:
        kinds = [Compression(choice.compression)]
    return [
        Compressor(kind, element_bytes, 1.0 if choice.top_k is None else choice.top_k)
        for kind in kinds
        if kind is not Compression.TOP_K or choice.top_k is not None
    ]
