"""The example bodies that ship with the planner."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, Literal

ExampleKind = Literal["pipeline", "sharding", "training"]
FOLDERS: dict[ExampleKind, tuple[str, ...]] = {
    "pipeline": ("examples",),
    "sharding": ("examples", "sharding"),
    "training": ("examples", "training"),
}


def example_bodies(kind: ExampleKind) -> list[dict[str, Any]]:
    """All bodies of a kind under ``planner/examples``, by file name, to be posted as they are."""
    folder = resources.files("planner").joinpath(*FOLDERS[kind])
    if not folder.is_dir():
        return []
    files = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".json")),
        key=lambda entry: entry.name,
    )
    return [json.loads(entry.read_text(encoding="utf-8")) for entry in files]
