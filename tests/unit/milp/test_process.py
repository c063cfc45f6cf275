"""Solver executables as supervised children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from planner.milp.process import run_supervised
from tests.unit.milp.children import fake_solver, is_running

ROOM_S = 2.0


def never() -> bool:
    return False


def test_a_solver_that_ignores_sigint_is_killed(tmp_path: Path) -> None:
    path = fake_solver(tmp_path, "trap '' INT\necho going\nwhile :; do sleep 0.1; done\n")
    lines: list[str] = []
    begun = time.monotonic()
    end = run_supervised([path], time_limit_s=0.5, should_stop=never, on_line=lines.append)
    assert time.monotonic() - begun < 0.5 + ROOM_S
    assert (end.interrupted, end.killed, end.returncode) == ("time_limit", True, -signal.SIGKILL)
    assert lines == ["going"]


def test_an_error_while_following_the_log_leaves_no_solver(tmp_path: Path) -> None:
    path = fake_solver(tmp_path, "echo $$\nwhile :; do sleep 0.1; done\n")
    pids: list[int] = []

    def fail(line: str) -> None:
        pids.append(int(line))
        raise RuntimeError("no room for the log")

    with pytest.raises(RuntimeError):
        run_supervised([path], time_limit_s=30, should_stop=never, on_line=fail)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


PARENT = """
import sys
from planner.milp.process import run_supervised
run_supervised(
    sys.argv[1:],
    time_limit_s=60,
    should_stop=lambda: False,
    on_line=lambda line: print(line, flush=True),
)
"""


def test_the_solver_dies_with_its_parent(tmp_path: Path) -> None:
    path = fake_solver(tmp_path, "echo $$\nexec sleep 60\n")
    arguments = [sys.executable, "-c", PARENT, str(path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        solver = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and is_running(solver):
        time.sleep(0.05)
    assert not is_running(solver)
