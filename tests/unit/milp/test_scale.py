"""Sizes as coefficients of a row."""

from __future__ import annotations

import pytest

from planner.milp.scale import SizeScale

GIB = 2**30


@pytest.mark.parametrize(
    ("limit", "sizes", "exact"),
    [(4 * GIB, [GIB, GIB // 2], True), (357019156, [174483046, 87241523], False)],
)
def test_sizes_become_whole_and_never_stricter(limit: int, sizes: list[int], exact: bool) -> None:
    scale = SizeScale(limit, sizes)
    assert scale.room(limit) <= 1_000_000
    for count in range(1, 5):
        total = sum(sizes) * count
        if total <= limit:
            assert sum(map(scale.used, sizes)) * count <= scale.room(limit)
    assert all((scale.used(size) == scale.room(size)) == exact for size in sizes)
