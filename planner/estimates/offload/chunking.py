"""How large the chunks should be in which an activation goes to the host.

A bytes become ready while a stage computes and go over a link of B bytes/s in n equal chunks of
c = A / n. Starting a chunk costs T seconds in which the link moves nothing, and a chunk can start
only when all of it is ready. So the link loses n T, and of the transfer itself the last chunk is
left when the computation ends, c / B. What is lost in all,

    n T + A / (n B),

is least where both terms are equal: n = sqrt(A / (B T)), that is c = sqrt(A B T), where
2 sqrt(A T / B) are lost. Bytes times bytes/s times seconds is bytes squared, so c is in bytes. It
is the same trade-off as that of a message through a pipeline of links, whose start-up and last
segment it balances (Johnsson and Ho 1989, IEEE Transactions on Computers 38(9)).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, inf, sqrt

from planner.cost.memory import ceil_div
from planner.cost.routes import Route


@dataclass(frozen=True, slots=True)
class Chunking:
    """`size` bytes over a route in `chunks` equal chunks (the last one may be smaller)."""

    size: int
    chunks: int
    route: Route

    @property
    def chunk_bytes(self) -> int:
        """Bytes of a chunk."""
        return ceil_div(self.size, self.chunks)

    @property
    def link_s(self) -> float:
        """How long the link is taken: n T + A / B."""
        return self.chunks * self.route.latency_s + self.size / self.route.bytes_per_s

    @property
    def lost_s(self) -> float:
        """n T, and the last chunk's transfer: what the docstring above minimises."""
        last_s = self.size / self.chunks / self.route.bytes_per_s
        return self.chunks * self.route.latency_s + last_s


def best_chunk_bytes(size: int, route: Route) -> float:
    """The real c = sqrt(A B T)."""
    return sqrt(size * route.bytes_per_s * route.latency_s)


def best_chunking(size: int, route: Route) -> Chunking:
    """The whole number of chunks that loses least; the loss is convex in it, so that it lies next
    to the real optimum. Without latency as many chunks as bytes."""
    ideal = best_chunk_bytes(size, route)
    count = size / ideal if ideal else inf
    low = max(1, floor(min(count, size)))
    candidates = [Chunking(size, chunks, route) for chunks in (low, min(size, low + 1))]
    return min(candidates, key=lambda chunking: chunking.lost_s)


def chunking_of(size: int, chunk_bytes: int, route: Route) -> Chunking:
    """The chunks that a given size of them gives; one if it is more than all there is."""
    return Chunking(size, max(1, ceil_div(size, chunk_bytes)), route)


def source_chunk(
    link_bytes_per_s: float, hbm_bytes_per_s: float, latency_s: float, overlap: float
) -> float | None:
    """sqrt(B G T / (2 (1 - overlap))), B being the link's and G the device memory's bytes per
    second; None where everything overlaps. B G T is bytes squared per second, so that the value
    is in bytes per square root of a second: it changes by sqrt(1000) where times are counted in
    milliseconds, although bytes stay bytes."""
    if overlap >= 1:
        return None
    return sqrt(link_bytes_per_s * hbm_bytes_per_s * latency_s / (2 * (1 - overlap)))
