"""What holds for all tests, and how long each part of them takes of what it is meant to take."""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about what is tested.
settings.register_profile("any speed", deadline=None)
settings.load_profile("any speed")

BUDGETS_S = {
    "unit/pipeline": 400,
    "unit/sharding": 220,
    "unit/training": 80,
    "unit/client": 100,
    "unit": 400,
    "integration/torch": 160,
    "integration": 900,
    "browser": 150,
    "contract": 280,
    "chaos": 200,
    "e2e": 250,
    "others": 30,
}
"""Seconds of all tests of a folder that has no line of its own, one after the other."""

_seconds: defaultdict[str, float] = defaultdict(float)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count what a test and its fixtures took."""
    parents = [str(parent) for parent in PurePosixPath(report.nodeid.partition("::")[0]).parents]
    names = [parent.removeprefix("tests/") for parent in parents]
    part = next((name for name in names if name in BUDGETS_S), "others")
    _seconds[part] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the parts took, side by side with their budgets."""
    terminalreporter.section("seconds by folder, of its budget")
    for part, seconds in sorted(_seconds.items(), key=lambda item: -item[1]):
        terminalreporter.line(f"{part:<20} {seconds:6.0f} of {BUDGETS_S[part]:5}")
