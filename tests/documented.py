"""The commands that README.md and docs/*.md tell people to run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = ("sh", "bash", "shell", "console", "python")
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block of code of a document."""

    document: str
    """Its name, like `api.md`."""
    language: str
    text: str

    @property
    def name(self) -> str:
        """What it is known by: the document and how its first line begins."""
        first = self.text.splitlines()[0].partition("  #")[0].rstrip()
        return f"{self.document}: {first}"


def blocks_of(document: Path) -> list[Block]:
    """Every block that a reader would run, in its order."""
    found = FENCE.findall(document.read_text())
    return [
        Block(document.name, language, text) for language, text in found if language in LANGUAGES
    ]


def all_blocks() -> dict[str, Block]:
    """Every block of every document, by name.

    Raises:
        ValueError: Two blocks of a document begin alike.
    """
    blocks = [block for document in DOCUMENTS for block in blocks_of(document)]
    named = {block.name: block for block in blocks}
    if len(named) < len(blocks):
        names = [block.name for block in blocks]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"these begin alike, change one: {twice}")
    return named
