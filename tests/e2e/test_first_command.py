"""The first command of the README on a fresh checkout: from nothing to a checked schedule."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests import referee
from tests.e2e.checkout import (
    bare_environment,
    copy_checkout,
    has_pip,
    project_files,
    python_without,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TIME_LIMIT_S = 10


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("first command") / "loadmaster")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One whose Python has no ensurepip, as Debian's without python3-venv."""
    python = python_without(["ensurepip"], tmp_path_factory.mktemp("bin"))
    return bare_environment(PYTHON=str(python)) if has_pip(python) else bare_environment()


def demo(checkout: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "scripts" / "demo", "--time-limit", str(TIME_LIMIT_S)],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture(scope="module")
def first(checkout: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    done = demo(checkout, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def processes_of(checkout: Path) -> list[str]:
    """Command lines of everything that runs out of the checkout or in it."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            working_dir = (process / "cwd").readlink()
        except OSError:
            continue
        if str(checkout) in command or working_dir.is_relative_to(checkout):
            found.append(command)
    return found


def test_it_shows_table_chart_and_certificate(first: subprocess.CompletedProcess[str]) -> None:
    for words in (
        *("Schedule", "Makespan", "1F1B", "PipeOffload", "OOM", "Loadmaster"),
        *("device 0", "device 7", "F forward", "Verified by", "bound"),
        ".venv/bin/loadmaster serve",
    ):
        assert words in first.stdout
    assert first.stderr == ""


def test_result_file_passes_the_independent_checker(
    first: subprocess.CompletedProcess[str], checkout: Path
) -> None:
    result = json.loads((checkout / "loadmaster-demo" / "result.json").read_text())
    violations, facts = referee.check(result["problem"], result["schedule"])
    assert violations == []
    assert facts["makespan_ns"] == result["certificate"]["value_ns"]
    fitting = [row["makespan_ns"] for row in result["comparison"] if row["fits"]]
    assert facts["makespan_ns"] <= min(fitting)


def test_nothing_is_left_running(first: subprocess.CompletedProcess[str], checkout: Path) -> None:
    assert processes_of(checkout) == []


def test_everything_is_in_the_environment_and_the_data_directory(
    first: subprocess.CompletedProcess[str], checkout: Path
) -> None:
    assert os.access(checkout / ".venv" / "bin" / "loadmaster", os.X_OK)
    data_dir = checkout / "loadmaster-demo"
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    shipped = {name.split("/")[0] for name in project_files()}
    made = {path.name for path in checkout.iterdir()} - shipped
    assert made <= {".venv", "loadmaster-demo", "loadmaster.egg-info"}


def test_second_run_answers_from_the_store(
    first: subprocess.CompletedProcess[str], checkout: Path, environment: dict[str, str]
) -> None:
    before = (checkout / "loadmaster-demo" / "result.json").read_text()
    second = demo(checkout, environment)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "known already" in second.stdout
    assert "set-up:" not in second.stdout
    after = json.loads((checkout / "loadmaster-demo" / "result.json").read_text())
    assert after["schedule"] == json.loads(before)["schedule"]
    assert processes_of(checkout) == []
