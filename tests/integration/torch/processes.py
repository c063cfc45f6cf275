"""Starts the processes that run exported files. Needs no PyTorch itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
RANKS = 4
Cases = Mapping[str, Mapping[str, Mapping[str, Any]]]


def started(arguments: list[str], **environment: str) -> subprocess.Popen[bytes]:
    """A module of this tree as a process of one thread."""
    own = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen([sys.executable, "-m", *arguments], cwd=ROOT, env=own)


def run_cases(folder: Path, cases: Cases) -> list[dict[str, Any]]:
    """What each of four processes found, by case; they run everything, to import PyTorch only
    once. `cases` are by kind (stock, timed, planned) and name."""
    (folder / "cases.json").write_text(json.dumps(cases))
    world = {"WORLD_SIZE": str(RANKS)}
    launch = ["tests.integration.torch.launch", str(folder)]
    processes = [started(launch, RANK=str(rank), **world) for rank in range(RANKS)]
    try:
        assert [process.wait() for process in processes] == [0] * RANKS
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(RANKS)]
