"""What lies on each device, and what each lacks of what it needs, device by device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from tests.sharding_model.ways import Shape

Splits = tuple[str, ...]
"""The roles that split each dimension, from the outermost."""

Degrees = tuple[int, int, int, int]
"""Of repeating, data, row and column devices."""

Block = tuple[tuple[int, int], ...]
"""Of each dimension the first index and the one behind the last."""

Lie = tuple[Block, ...]
"""The block that each device holds."""


def coordinates(degrees: Degrees) -> Iterator[dict[str, int]]:
    """The place of each device in the mesh, by role (`x` repeats)."""
    for spare in range(degrees[0]):
        for d in range(degrees[1]):
            for r in range(degrees[2]):
                for c in range(degrees[3]):
                    yield {"x": spare, "d": d, "r": r, "c": c}


@cache
def lie(shape: Shape, splits: Splits, degrees: Degrees) -> Lie:
    """The block of each device, cut dimension by dimension and role by role."""
    sizes = dict(zip("xdrc", degrees, strict=True))
    found = []
    for at in coordinates(degrees):
        block = []
        for size, roles in zip(shape, splits, strict=True):
            first, length = 0, size
            for role in roles:
                assert length % sizes[role] == 0
                length //= sizes[role]
                first += at[role] * length
            block.append((first, first + length))
        found.append(tuple(block))
    return tuple(found)


@cache
def elements(block: Block) -> int:
    """How many elements a block has."""
    return math.prod(end - first for first, end in block)


@cache
def common(a: Block, b: Block) -> int:
    """How many elements two blocks share."""
    shared = 1
    for (first, end), (other_first, other_end) in zip(a, b, strict=True):
        shared *= max(0, min(end, other_end) - max(first, other_first))
    return shared


@cache
def received(have: Lie, want: Lie, per_node: int, slowdown: float) -> tuple[int, int]:
    """What the device receives that waits longest: elements that another device of its node has,
    and elements that none has there, which count `slowdown` times."""
    waits = set()
    for start in range(0, len(want), per_node):
        node = slice(start, start + per_node)
        blocks = set(have[node])
        for own, wanted in set(zip(have[node], want[node], strict=True)):
            size, far = elements(wanted), 0
            if per_node < len(want):
                far = size - sum([common(block, wanted) for block in blocks])
            waits.add((size - common(own, wanted) - far, far))
    return max(waits, key=lambda wait: wait[0] + slowdown * wait[1])
