"""Lines, tables and JSON in the terminal, which has the width that it has."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_title(console: Console, title: str) -> None:
    """The one line that says most."""
    console.print(Text(title, style="bold"))


def print_json(document: Mapping[str, Any]) -> None:
    """A document as JSON, whatever the width of the terminal."""
    click.echo(json.dumps(document, indent=1))


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
