"""The independent schedule checker, where it lies beside the checkout; absent in a user's clone."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
CHECKER = SHARED / "oracle" / "check_schedule.py"
BENCHMARKS = SHARED / "benchmarks" / "pipeline"


def load() -> ModuleType:
    """The checker as a module; skips the calling test where it is absent."""
    if not CHECKER.exists():
        pytest.skip("the independent schedule checker is not beside this checkout")
    spec = importlib.util.spec_from_file_location("check_schedule", CHECKER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(problem: dict[str, Any], schedule: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Violated rules and recomputed figures of a schedule against the problem as it was posted."""
    violations, facts = load().check({"problem": problem, "schedule": schedule})
    return violations, facts
