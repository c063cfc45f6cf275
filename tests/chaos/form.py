"""The short and the long form of the tests: what differs is how much is asked of the service."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")

IS_LONG = os.environ.get("CHAOS") == "long"
LONG_S = 1500
"""More than any test of the long form takes."""


def by_form(short: Value, long: Value) -> Value:
    """The one or the other."""
    return long if IS_LONG else short


def seeded_random() -> random.Random:
    """Random numbers; the seed is printed, so that what happened can happen again."""
    seed = int(os.environ.get("CHAOS_SEED", time.time_ns() % 1_000_000))
    print(f"CHAOS_SEED={seed}")
    return random.Random(seed)


def record(what: str, **figures: Any) -> None:
    """Print figures, and append them to the file of figures if there is to be one."""
    line = json.dumps({"what": what, "form": by_form("short", "long"), **figures})
    print(line)
    if path := os.environ.get("CHAOS_RECORD"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
