"""Lossy compression of activations on their way to the host: what is left to move, and what
compressing takes of a GPU's memory rate. It changes the gradients, hence what is trained.

- FP8: one byte per element (Micikevicius et al. 2022, arXiv 2209.05433) and one fp32 scale for each
  128 of them, as DeepSeek-V3 keeps activations (arXiv 2412.19437, section 3.3).
- Top-k: the share k of the elements that is largest in magnitude, each with a 4-byte position; what
  is not kept comes back as zero. Bian et al. 2023 (arXiv 2301.02654) find that it costs far more
  accuracy than quantisation at the same ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from planner.cost.memory import ceil_div

FP8_BYTES, FP8_GROUP, SCALE_BYTES = 1, 128, 4
POSITION_BYTES = 4
TOP_K_READS = 3
"""Passes over the elements: two of a radix select over 16 bits, 8 bits each, and one that writes
those above the threshold."""


class Compression(StrEnum):
    """How activations travel to the host."""

    NONE = "none"
    FP8 = "fp8"
    TOP_K = "top_k"


@dataclass(frozen=True, slots=True)
class Compressor:
    """One way to compress elements of `element_bytes` each; `kept_share` is top-k's k."""

    kind: Compression
    element_bytes: int
    kept_share: float = 1.0

    @property
    def is_lossy(self) -> bool:
        """Whether what comes back is not what was sent."""
        return self.kind is not Compression.NONE

    @property
    def factor(self) -> float:
        """Bytes on the way per byte of elements, without the rounding of `moved_bytes`."""
        if self.kind is Compression.FP8:
            return (FP8_BYTES + SCALE_BYTES / FP8_GROUP) / self.element_bytes
        if self.kind is Compression.TOP_K:
            return self.kept_share * (self.element_bytes + POSITION_BYTES) / self.element_bytes
        return 1.0

    def moved_bytes(self, elements: int) -> int:
        """What so many elements take on the link and in the host's memory."""
        if self.kind is Compression.FP8:
            return elements * FP8_BYTES + ceil_div(elements, FP8_GROUP) * SCALE_BYTES
        if self.kind is Compression.TOP_K:
            return self._kept(elements) * (self.element_bytes + POSITION_BYTES)
        return elements * self.element_bytes

    def compress_bytes(self, elements: int) -> int:
        """What compressing moves through the GPU's memory: FP8 reads once and writes the result,
        as each scale is that of elements that a thread block holds; top-k reads thrice."""
        if not self.is_lossy:
            return 0
        reads = TOP_K_READS if self.kind is Compression.TOP_K else 1
        return reads * elements * self.element_bytes + self.moved_bytes(elements)

    def restore_bytes(self, elements: int) -> int:
        """What restoring moves through the GPU's memory: the result is read, and all elements are
        written; top-k writes zeros first and those that were kept over them."""
        if not self.is_lossy:
            return 0
        again = self.element_bytes * self._kept(elements) if self.kind is Compression.TOP_K else 0
        return self.moved_bytes(elements) + elements * self.element_bytes + again

    def _kept(self, elements: int) -> int:
        return min(elements, ceil(self.kept_share * elements))


def largest_useful_share(element_bytes: int) -> float:
    """The k at which top-k's values and positions take as much as all elements: e / (e + 4)."""
    return element_bytes / (element_bytes + POSITION_BYTES)
