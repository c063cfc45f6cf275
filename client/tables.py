"""Columns that are as wide as their figures, whatever the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

GAP = 2
"""Blanks between two columns of a table without lines."""


@dataclass(frozen=True)
class Column:
    """A column of a table. Its heading may have several lines, its cells have one each."""

    heading: str
    cells: Sequence[Text]
    numeric: bool = False

    @property
    def width(self) -> int:
        """What it takes to cut nothing."""
        return max(_widths([*self.heading.splitlines(), *(cell.plain for cell in self.cells)]))

    @property
    def longest_word(self) -> int:
        """What it takes to break no word."""
        return max(
            _widths([*self.heading.split(), *(w for c in self.cells for w in c.plain.split())])
        )


def texts(values: Iterable[str]) -> list[Text]:
    """Cells of one line each, free of markup."""
    return [Text(" ".join(value.split())) for value in values]


def boxed_width(widths: Sequence[int]) -> int:
    """The width of a table with lines around its columns."""
    return sum(widths) + 3 * len(widths) + 1


def plain_width(widths: Sequence[int]) -> int:
    """The width of a table without lines."""
    return sum(widths) + GAP * max(0, len(widths) - 1)


def _widths(words: Iterable[str]) -> list[int]:
    return [0, *(cell_len(word) for word in words)]
