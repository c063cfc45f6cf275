"""The image's entry point starts what it is told, with compiled code where it may be added to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.dockerfile import DOCKERFILE

ENTRYPOINT = DOCKERFILE.parent / "deploy" / "entrypoint"


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """One with compiled code and a `python` that says how it was called."""
    folder = tmp_path / "environment"
    (folder / "bin").mkdir(parents=True)
    (folder / "compiled" / "digest").mkdir(parents=True)
    (folder / "compiled" / "digest" / "function.nbc").write_text("code")
    (folder / "cache").mkdir()
    (folder / "cache" / "numba").symlink_to(tmp_path / "writable")
    program = folder / "bin" / "python"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    return folder


def start(environment: Path, *command: str) -> str:
    path = f"{environment / 'bin'}:/usr/bin:/bin"
    return subprocess.check_output([ENTRYPOINT, *command], env={"PATH": path}, text=True)


def copied(environment: Path) -> list[str]:
    writable = environment.parent / "writable"
    others = [path.name for path in environment.parent.glob("writable.*")]
    return others + sorted(path.name for path in writable.rglob("*.nbc"))


def test_the_processes(environment: Path) -> None:
    api = start(environment, "api", "--root-path", "/x").split()
    assert api[:4] == ["-m", "uvicorn", "app.main:create_app", "--factory"]
    assert api[-2:] == ["--root-path", "/x"]
    assert start(environment, "migrate") == "-m migrations\n"
    assert copied(environment) == []
    worker = start(environment, "worker", "--concurrency", "3").split()
    assert worker[:5] == ["-m", "celery", "-A", "workers.celery_app", "worker"]
    assert worker[-2:] == ["--concurrency", "3"]


@pytest.mark.parametrize("command", [("worker",), ("python", "-m", "something")])
def test_compiled_code_is_copied_once(environment: Path, command: tuple[str, ...]) -> None:
    for _ in range(2):
        start(environment, *command)
        assert copied(environment) == ["function.nbc"]


def test_what_is_there_already_is_left_alone(environment: Path) -> None:
    writable = environment.parent / "writable"
    writable.mkdir()
    (writable / "newer.nbc").write_text("compiled here")
    start(environment, "worker")
    assert copied(environment) == ["newer.nbc"]


def test_other_commands_are_run_as_they_are(environment: Path) -> None:
    assert start(environment, "echo", "api", "two words") == "api two words\n"
    done = subprocess.run([ENTRYPOINT, "false"], env={"PATH": f"{environment}/bin:/usr/bin:/bin"})
    assert done.returncode == 1
