"""Whether the worker of this container is alive: `python -m workers.health` ends with 0 or 1.

The worker's main process touches a file after every round of its sweep, whatever came of it: a
database or a broker that is away is no reason to restart a worker whose solvers are at work.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

from app.settings import Settings

SILENCE_S = 60.0
"""Longer than a round in which every statement and every message waits until it times out."""


def show_life(file: Path) -> None:
    """Say that a round is over. A disk that is full makes the worker look dead, not die."""
    with contextlib.suppress(OSError):
        file.touch(mode=0o600)


def is_alive(file: Path) -> bool:
    """Whether a round has ended lately."""
    try:
        return time.time() - file.stat().st_mtime < SILENCE_S
    except OSError:
        return False


def main() -> int:
    """0 if alive, 1 if not, 2 where no file is kept."""
    file = Settings().worker_alive_file
    if file is None:
        print("LOADMASTER_WORKER_ALIVE_FILE is not set: nothing tells whether the worker is alive.")
        return 2
    return 0 if is_alive(file) else 1


if __name__ == "__main__":
    sys.exit(main())
