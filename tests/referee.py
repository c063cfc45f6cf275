"""The independent checkers, where they lie beside the checkout; absent in a user's clone."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
CHECKER = SHARED / "oracle" / "check_schedule.py"
SHARDING_CHECKER = SHARED / "oracle" / "check_sharding.py"
BENCHMARKS = SHARED / "benchmarks" / "pipeline"


def load(checker: Path = CHECKER) -> ModuleType:
    """A checker as a module; skips the calling test where it is absent."""
    if not checker.exists():
        pytest.skip(f"the independent {checker.stem} is not beside this checkout")
    spec = importlib.util.spec_from_file_location(checker.stem, checker)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(problem: dict[str, Any], schedule: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Violated rules and recomputed figures of a schedule against the problem as it was posted."""
    violations, facts = load().check({"problem": problem, "schedule": schedule})
    return violations, facts


def check_sharding(instance: dict[str, Any], plan: dict[str, Any]) -> list[str]:
    """Violated rules of a sharding plan, a refuted claim to be optimal included."""
    load(SHARDING_CHECKER)
    checked = subprocess.run(
        [sys.executable, str(SHARDING_CHECKER), "-"],
        input=json.dumps({"instance": instance, "plan": plan}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert not checked.stderr, checked.stderr
    return checked.stdout.splitlines() if checked.returncode else []
