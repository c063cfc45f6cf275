"""What the benchmarks share: their folders, waiting for a job, and the independent checker."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from client.library.requests import TERMINAL_STATES
from client.library.service import Service

FOLDER = Path(__file__).parent
PROBLEMS = FOLDER / "problems"
BEST_KNOWN = PROBLEMS / "best-known.json"
POLL_S = 0.5
CHECKER_S = 60.0
"""How long a checker may take; one that proves optimality by itself may not end on 96 layers."""


def parser_for(description: str | None) -> argparse.ArgumentParser:
    """Of the arguments of a benchmark, which its docstring describes as it is written."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def wait_for(
    client: Service, job_id: str, on_poll: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """The status of a job once it is over."""
    while (status := client.status(job_id))["state"] not in TERMINAL_STATES:
        on_poll()
        time.sleep(POLL_S)
    return status


def check(document: dict[str, Any], checker: Path | None) -> str | None:
    """What the independent checker has against an answer in the format that it reads.

    Raises `subprocess.TimeoutExpired` if it does not end within `CHECKER_S`.
    """
    if checker is None:
        return None
    run = subprocess.run(
        [sys.executable, str(checker), "-"],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        timeout=CHECKER_S,
    )
    return None if run.returncode == 0 else run.stdout.strip() or run.stderr.strip()


def milliseconds(value_ns: int | None) -> str:
    """Nanoseconds as milliseconds for a table."""
    return "–" if value_ns is None else f"{value_ns / 1e6:.2f}"
