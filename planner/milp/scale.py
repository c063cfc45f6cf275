"""Sizes as the whole coefficients of a row.

python-mip writes models with five decimals, so a row of shares would be another row once it is
written and read. Whole numbers come through as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

LARGEST_COEFFICIENT = 1_000_000


class SizeScale:
    """Turns bytes into whole units of a row whose right-hand side is `limit`.

    The unit is the greatest common divisor of all sizes if that keeps the coefficients small;
    otherwise a millionth of the largest, and rounding goes the lenient way, so that nothing
    that fits is cut off.
    """

    def __init__(self, limit: int, sizes: Iterable[int]) -> None:
        sizes = list(sizes)
        largest = max([limit, *sizes, 1])
        divisor = math.gcd(limit, *sizes) or 1
        self._unit = max(divisor, -(-largest // LARGEST_COEFFICIENT))

    def used(self, size: int) -> int:
        """A size that takes room, rounded down."""
        return size // self._unit

    def room(self, size: int) -> int:
        """A limit, or a size that gives room, rounded up."""
        return -(-size // self._unit)
