"""The table of `loadmaster jobs`: identifiers, states and numbers whole, names cut to one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from client.figures import best_figure, percent
from client.tables import GAP, Column, plain_width, texts

NARROWEST_NAME = 8


def job_table(jobs: Sequence[Mapping[str, Any]], width: int) -> Table:
    """The jobs in `width` columns. A terminal too narrow for the figures gets longer lines."""
    figures = [
        Column("Job", texts(job["id"] for job in jobs)),
        Column("State", texts(job["state"] for job in jobs)),
        Column("Best", texts(best_figure(job) or "–" for job in jobs), True),
        Column("Gap", texts(percent(job["gap"], 2) for job in jobs), True),
    ]
    names = [
        Column("Name", texts(job["name"] or "" for job in jobs)),
        Column("Tags", texts(" ".join(job["tags"]) for job in jobs)),
    ]
    widths = [column.width for column in figures]
    name_widths = _name_widths(names, width - plain_width(widths))
    shown = [*figures, *names[: len(name_widths)]]
    return _table(shown, [*widths, *name_widths])


def _name_widths(names: Sequence[Column], room: int) -> list[int]:
    """How wide each column of names is; the last ones are left out where there is no room."""
    count = min(len(names), max(0, room) // (GAP + NARROWEST_NAME))
    widths: list[int] = []
    room -= GAP * count
    for index in range(count):
        later = [NARROWEST_NAME] * (count - index - 1)
        widths.append(min(names[index].width, room - sum(later)))
        room -= widths[-1]
    return widths


def _table(columns: Sequence[Column], widths: Sequence[int]) -> Table:
    table = Table(box=None, pad_edge=False, width=plain_width(widths))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            column.heading,
            justify="right" if column.numeric else "left",
            width=width,
            no_wrap=True,
            overflow="ellipsis",
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    return table
