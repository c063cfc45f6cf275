"""Operators that are close to one another in the graph, whose strategies may change together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from planner.sharding.instance import Instance


def neighbourhoods(instance: Instance, size: int) -> Iterator[frozenset[int]]:
    """For each operator it and those fewest edges away, `size` in all, none twice."""
    near: list[list[int]] = [[] for _ in instance.operators]
    for edge in instance.edges:
        near[edge.source].append(edge.target)
        near[edge.target].append(edge.source)
    seen = set()
    for v in range(len(near)):
        found = frozenset(_nearest(near, v, size))
        if found not in seen:
            seen.add(found)
            yield found


def _nearest(near: list[list[int]], v: int, size: int) -> list[int]:
    found = [v]
    waiting = deque(found)
    while waiting and len(found) < size:
        for u in sorted(near[waiting.popleft()]):
            if u not in found and len(found) < size:
                found.append(u)
                waiting.append(u)
    return found
