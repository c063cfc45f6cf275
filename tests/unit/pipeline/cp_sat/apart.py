"""Running a check in an interpreter of its own.

OR-Tools and python-mip cannot be loaded into one process (see `cp_sat.improve`), and other tests
load python-mip into this one.
"""

from __future__ import annotations

import importlib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

CHECKS = "tests.unit.pipeline.cp_sat.checks"


def run_apart(name: str, *arguments: Any) -> Any:
    """What the check returns; what it raises is raised here."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_call, name, arguments).result()


def _call(name: str, arguments: tuple[Any, ...]) -> Any:
    return getattr(importlib.import_module(CHECKS), name)(*arguments)
