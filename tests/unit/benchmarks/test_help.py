"""Every benchmark says what it does before it does it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.common import FOLDER

MODULES = (
    "ablation",
    "choices",
    "dashboard",
    "faults",
    "following",
    "heterogeneity",
    "models",
    "pipeline",
    "predictions",
    "replanning_scale",
    "run_callback",
    "service",
    "sharding",
    "sharding_torch",
    "telemetry",
    "timing",
    "zero_bubble",
)


@pytest.mark.parametrize("module", MODULES)
def test_help_describes_the_benchmark_and_starts_nothing(module: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", "--help"],
        cwd=FOLDER.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "show this help message" in ran.stdout
    assert f"python -m benchmarks.{module}" in ran.stdout
    assert "results/" in ran.stdout


def test_no_benchmark_begins_without_reading_its_arguments() -> None:
    programs = [
        file
        for file in (*FOLDER.glob("*.py"), *FOLDER.glob("*/__main__.py"))
        if 'if __name__ == "__main__"' in file.read_text()
    ]
    assert len(programs) > 10
    for file in programs:
        assert "pars" in file.read_text(), file
