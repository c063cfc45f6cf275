"""How many layers each part of a pipeline gets."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

Cost = Callable[[int, int], int]


def partition_layers(
    layers: int,
    layer_ns: int,
    extra_ns: Sequence[int],
    memory_bytes: Cost,
    minimum: int = 1,
) -> tuple[int, ...]:
    """Layers per part, at least `minimum` each, that minimise the largest part's time.

    All layers are alike and take `layer_ns`; part i takes `extra_ns[i]` beside its layers (the
    embedding, the head). Among the partitions of least largest time the largest
    `memory_bytes(part, count)`, which must not fall with more layers, is minimised, and among
    those the sum of squared times, so that the rest is even; what still ties goes to later
    parts, which hold fewer micro-batches. Exact: with layers alike, each of
    the three is a separable convex allocation, which handing out layers one by one to the part
    where one more costs least solves (Fox 1966). `layers` must be at least `minimum` per part.
    """

    def time(part: int, count: int) -> int:
        return extra_ns[part] + count * max(1, layer_ns)

    def squared_growth(part: int, count: int) -> int:
        return time(part, count) ** 2 - time(part, count - 1) ** 2

    def largest(cost: Cost, counts: Sequence[int]) -> int:
        return max(cost(part, count) for part, count in enumerate(counts))

    def hand_out(cost: Cost, allowed: Callable[[int, int], bool]) -> tuple[int, ...]:
        counts = [minimum] * len(extra_ns)
        next_costs = [
            (cost(part, minimum + 1), -part)
            for part in range(len(extra_ns))
            if allowed(part, minimum + 1)
        ]
        heapq.heapify(next_costs)
        for _ in range(layers - sum(counts)):
            part = -heapq.heappop(next_costs)[1]
            counts[part] += 1
            if allowed(part, counts[part] + 1):
                heapq.heappush(next_costs, (cost(part, counts[part] + 1), -part))
        return tuple(counts)

    longest_ns = largest(time, hand_out(time, lambda _part, _count: True))

    def in_time(part: int, count: int) -> bool:
        return time(part, count) <= longest_ns

    most_bytes = largest(memory_bytes, hand_out(memory_bytes, in_time))
    return hand_out(
        squared_growth,
        lambda part, count: in_time(part, count) and memory_bytes(part, count) <= most_bytes,
    )
