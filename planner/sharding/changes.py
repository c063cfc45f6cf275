"""Which collective brings a tensor from one layout into another."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np

from planner.sharding.layout import Layout
from planner.sharding.moves import held_cells

Change = Literal["same", "slice", "all_gather", "all_to_all"]


@lru_cache(maxsize=65536)
def change_of(source: Layout, target: Layout) -> Change:
    """`same`: every device has exactly what it needs; `slice`: it has more; `all_gather`: what it
    has is part of what it needs; `all_to_all`: everything else."""
    if source == target:
        return "same"
    dimensions = 1 + max(d for d in (0, *source.split, *target.split) if d is not None)
    (had_first, had_end), (want_first, want_end) = (
        held_cells((layout,), dimensions) for layout in (source, target)
    )
    has_more = bool(np.all((had_first <= want_first) & (want_end <= had_end)))
    has_part = bool(np.all((want_first <= had_first) & (had_end <= want_end)))
    if has_more and has_part:
        return "same"
    if has_more:
        return "slice"
    return "all_gather" if has_part else "all_to_all"


def gathers_rows(source: Layout, target: Layout) -> bool:
    """Whether gathered parts follow one another in memory: only the first dimension is joined."""
    return _degrees_beside_first(source) == _degrees_beside_first(target)


def _degrees_beside_first(layout: Layout) -> dict[int, int]:
    found: dict[int, int] = {}
    for degree, dimension in zip(layout.degrees, layout.split, strict=True):
        if dimension and degree > 1:
            found[dimension] = found.get(dimension, 1) * degree
    return found
