"""Lines and tables in the terminal, which has the width that it has."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_title(console: Console, title: str) -> None:
    """The one line that says most."""
    console.print(Text(title, style="bold"))


def print_table(console: Console, table: Table) -> None:
    """A table, whose lines may be longer than the terminal is wide."""
    console.print(table, crop=False)


def print_lines(
    console: Console, lines: Iterable[str], style: str = "", *, indent: int = 0
) -> None:
    """Lines as they are, broken between words, so many columns from the left."""
    for line in lines:
        for part in Text(line, style=style).wrap(console, console.width - indent):
            console.print(Text(" " * indent) + part)
