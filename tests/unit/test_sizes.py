"""Sizes in words."""

from __future__ import annotations

import pytest

from planner.sizes import GIB, KIB, MIB, gib


@pytest.mark.parametrize(
    ("size_bytes", "words"),
    [
        (80 * GIB, "80.00 GiB"),
        (2_147_483_648, "2.00 GiB"),
        (3000 * GIB, "3,000.00 GiB"),
        (GIB // 2, "0.50 GiB"),
        (GIB // 20, "51.20 MiB"),
        (5 * MIB, "5.00 MiB"),
        (3 * KIB, "3.00 KiB"),
        (16, "16 bytes"),
        (1, "1 byte"),
        (0, "0 bytes"),
        (-2 * GIB, "-2.00 GiB"),
    ],
)
def test_sizes_are_said_in_the_unit_that_shows_them(size_bytes: int, words: str) -> None:
    assert gib(size_bytes) == words
