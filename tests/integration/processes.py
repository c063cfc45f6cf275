"""Find processes again by a marker in their command lines."""

from __future__ import annotations

import uuid
from pathlib import Path


def new_marker() -> str:
    """A word that no other command line contains."""
    return f"marker-{uuid.uuid4().hex}"


def marked_processes(marker: str) -> list[int]:
    """Living processes with the marker as an argument, whoever their parent is by now."""
    entries = (entry for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [int(entry.name) for entry in entries if _has(entry, marker)]


def _has(process: Path, marker: str) -> bool:
    try:
        if (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        return marker.encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False
