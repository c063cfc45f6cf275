"""Columns that are as wide as their figures, whatever the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import HEAVY_HEAD
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from client.figures import size_unit

Row = Mapping[str, Any]
"""What a row of a table is made from: an object of an answer."""

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


def size_columns(figures: Mapping[str, Sequence[float | None]]) -> list[Column]:
    """Columns of sizes, all in the same unit, which their headings name."""
    unit = size_unit(size for sizes in figures.values() for size in sizes)
    return [
        Column(f"{heading}\n{unit.name}", texts(map(unit.figure, sizes)), True)
        for heading, sizes in figures.items()
    ]


def headings(columns: Sequence[Column], *names: str) -> list[str]:
    """The whole headings of these columns, in the order of the names."""
    return [c.heading for name in names for c in columns if c.heading.startswith(name)]


def boxed_width(widths: Sequence[int]) -> int:
    """The width of a table with lines around its columns."""
    return sum(widths) + 3 * len(widths) + 1


def plain_width(widths: Sequence[int]) -> int:
    """The width of a table without lines."""
    return sum(widths) + GAP * max(0, len(widths) - 1)


def fits_cell(fits: bool) -> Text:
    """Whether a plan fits into the memory."""
    return Text("yes", style="green") if fits else Text("OOM", style="red")


def contrasting_table(
    columns: Sequence[Column],
    width: int,
    least_important: Sequence[str],
    last_resort: Sequence[str] = (),
) -> Table:
    """A table whose first row is contrasted with the others, in `width` columns.

    It has lines where there is room for them. A narrow terminal does without the least important
    columns, and, where that is not enough even without lines, without those of the last resort.
    Names in the first column are broken between words; figures are never cut.
    """
    shown = list(columns)
    names = columns[0].longest_word
    for heading in least_important:
        if boxed_width(_with_names(shown, names)) <= width:
            break
        shown = [column for column in shown if column.heading != heading]
    boxed = boxed_width(_with_names(shown, names)) <= width
    if plain_width(_with_names(shown, names)) > width:
        shown = [column for column in shown if column.heading not in last_resort]
    narrowest = (boxed_width if boxed else plain_width)(_with_names(shown, names))
    table = Table(box=HEAVY_HEAD if boxed else None, pad_edge=boxed)
    if narrowest > width:
        # Lines that are too long for the terminal are better than figures without their ends.
        table.width = narrowest
    table.add_column(shown[0].heading, min_width=names, overflow="fold")
    for column in shown[1:]:
        table.add_column(
            column.heading,
            justify="right" if column.numeric else "left",
            min_width=column.width,
            no_wrap=True,
        )
    for index, cells in enumerate(zip(*(column.cells for column in shown), strict=True)):
        table.add_row(*cells, style="" if index else "bold", end_section=index == 0)
    return table


def _with_names(columns: Sequence[Column], names: int) -> list[int]:
    return [names, *(column.width for column in columns[1:])]


def plain_table(columns: Sequence[Column], width: int, least_important: Sequence[str]) -> Table:
    """A table without lines; a narrow terminal does without the least important columns.

    Lines that are still too long for the terminal are better than figures without their ends.
    """
    shown = list(columns)
    for heading in least_important:
        if plain_width([column.width for column in shown]) <= width:
            break
        shown = [column for column in shown if column.heading != heading]
    table = Table(box=None, pad_edge=False, width=plain_width([c.width for c in shown]))
    for column in shown:
        table.add_column(
            column.heading,
            justify="right" if column.numeric else "left",
            width=column.width,
            no_wrap=True,
        )
    for cells in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*cells)
    return table


def _widths(words: Iterable[str]) -> list[int]:
    return [0, *(cell_len(word) for word in words)]
