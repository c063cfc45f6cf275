"""The example bodies that ship with the planner."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any


def example_bodies() -> list[dict[str, Any]]:
    """Every body under ``planner/examples``, by file name; each can be posted as it is."""
    folder = resources.files("planner") / "examples"
    if not folder.is_dir():
        return []
    files = sorted(
        (entry for entry in folder.iterdir() if entry.name.endswith(".json")),
        key=lambda entry: entry.name,
    )
    return [json.loads(entry.read_text(encoding="utf-8")) for entry in files]
