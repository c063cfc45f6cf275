"""What the benchmarks share: their folders, their arguments and the independent checker."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PROBLEMS = FOLDER / "problems"
BEST_KNOWN = PROBLEMS / "best-known.json"
CHECKER_S = 60.0
"""How long a checker may take; one that proves optimality by itself may not end on 96 layers."""


def parser_for(description: str | None) -> argparse.ArgumentParser:
    """Of the arguments of a benchmark, which its docstring describes as it is written."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def is_default(parser: argparse.ArgumentParser, asked: argparse.Namespace, *ignored: str) -> bool:
    """Whether all arguments but the ignored ones are those of a run without any, whose record is
    kept."""

    def counted(arguments: argparse.Namespace) -> dict[str, Any]:
        return {name: value for name, value in vars(arguments).items() if name not in ignored}

    return counted(asked) == counted(parser.parse_args([]))


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
