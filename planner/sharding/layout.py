"""Where a tensor lies: which block each device holds.

The devices of a strategy form a mesh: spare x data x row x column, column innermost, so that
neighbouring devices (one node's) form the column groups. `spare` devices repeat what the others
do; it is 1 unless no factorisation of the devices fits an operator's shapes.
"""

from __future__ import annotations

from typing import NamedTuple

from planner.sharding.operators.rule import Degrees, Split


class Layout(NamedTuple):
    """A tensor split over all devices of a mesh of `spare` x `degrees`."""

    degrees: Degrees
    split: Split
    spare: int = 1

    @property
    def devices(self) -> int:
        """All devices of the mesh."""
        data, row, column = self.degrees
        return self.spare * data * row * column

    @property
    def blocks(self) -> int:
        """Into how many different blocks the tensor is split."""
        count = 1
        for degree, dimension in zip(self.degrees, self.split, strict=True):
            count *= 1 if dimension is None else degree
        return count

    @property
    def effective(self) -> Layout:
        """The same blocks, without the splits by roles of one device."""
        parts = zip(self.degrees, self.split, strict=True)
        return self._replace(split=Split(*(None if d == 1 else own for d, own in parts)))
