"""Where names of dots stand in a picture, so that they cover little of what is there."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels."""

CHARACTER = 6.7
"""Width of a character on average, in 13-pixel text."""
ASCENT, DESCENT = 11, 3
DOT, LINE = 5, 2
"""Half the side of the box around a dot, and around each point of a line."""
OUTSIDE_COSTS = 10
"""A pixel outside is as bad as so many that are covered."""


def placed(
    named: Sequence[tuple[Point, str]],
    dots: Sequence[Point],
    lines: Sequence[Sequence[Point]],
    inside: Box,
) -> list[Point]:
    """Left end and base line of each name, beside its dot, in turn."""
    taken = [_around(dot, DOT) for dot in dots]
    taken += [_around(point, LINE) for line in lines for point in _along(line)]
    ends = []
    for dot, name in named:
        boxes = list(_places(dot, CHARACTER * len(name)))
        box = min(boxes, key=lambda box: _cost(box, taken, inside))
        taken.append(box)
        ends.append((box[0], box[3] - DESCENT))
    return ends


def _places(dot: Point, width: float) -> Iterator[Box]:
    """Right, left, above, below, and at the corners."""
    x, y = dot
    for left, base in (
        (x + 8, y + 4.5),
        (x - 8 - width, y + 4.5),
        (x - width / 2, y - 9),
        (x - width / 2, y + 18),
        (x + 6, y - 9),
        (x + 6, y + 18),
        (x - 6 - width, y - 9),
        (x - 6 - width, y + 18),
    ):
        yield left, base - ASCENT, left + width, base + DESCENT


def _cost(box: Box, taken: Sequence[Box], inside: Box) -> float:
    covered = sum(_common(box, other) for other in taken)
    area = (box[2] - box[0]) * (box[3] - box[1])
    return covered + OUTSIDE_COSTS * (area - _common(box, inside))


def _common(one: Box, other: Box) -> float:
    """Square pixels that are in both."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)


def _around(point: Point, half: float) -> Box:
    x, y = point
    return x - half, y - half, x + half, y + half


def _along(line: Sequence[Point]) -> Iterator[Point]:
    """Points of a line, so close that their boxes touch."""
    for (x1, y1), (x2, y2) in pairwise(line):
        count = max(1, math.ceil(math.dist((x1, y1), (x2, y2)) / (2 * LINE)))
        for i in range(count + 1):
            yield x1 + i / count * (x2 - x1), y1 + i / count * (y2 - y1)
