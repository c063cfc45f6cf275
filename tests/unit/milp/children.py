"""Executables that stand for a solver, and whether a process still runs."""

from __future__ import annotations

from pathlib import Path


def fake_solver(folder: Path, body: str) -> Path:
    """A shell script in the place of a solver's executable."""
    path = folder / "solver"
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(0o755)
    return path


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
