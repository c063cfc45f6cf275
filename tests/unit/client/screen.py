"""What a terminal shows of a result."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from client.solving import RENDERERS


def shown(result: dict[str, Any], width: int = 100, kind: str = "pipeline") -> str:
    """All of it as text, in so many columns."""
    console = Console(file=io.StringIO(), width=width)
    RENDERERS[kind](console, result)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def line_with(text: str, output: str) -> str:
    """The first line that has the text."""
    return next(line for line in output.splitlines() if text in line)
