"""Tables as CSV (RFC 4180) that spreadsheets take for text and numbers only."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

MEDIA_TYPE = "text/csv; charset=utf-8"
EXTENSION = "csv"
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet runs a text that begins like this; an apostrophe before it keeps it a text."""

Cell = str | int | float | bool | None


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """The table with its heading. What there is not is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(columns)
    writer.writerows([_written(cell) for cell in row] for row in rows)
    return text.getvalue()


def _written(cell: Cell) -> str | int | float | None:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, str) and cell.startswith(FORMULA_STARTS):
        return f"'{cell}"
    return cell
