"""Python code in a forked child."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.errors import SolverCrash
from planner.milp import in_process
from planner.milp.in_process import ChildEnd, run_in_child
from tests.unit.milp.children import is_running

ROOM_S = 1.5
LIBC = ctypes.CDLL(None)


def never() -> bool:
    return False


def ignore(line: str) -> None:
    pass


def run(work: Callable[[], object], time_limit_s: float = 30.0) -> ChildEnd[object]:
    return run_in_child(work, time_limit_s=time_limit_s, should_stop=never, on_line=ignore)


def test_the_result_comes_back_however_large_it_is() -> None:
    number = 7
    end = run(lambda: {"number": number, "many": list(range(500_000))})
    assert end.interrupted is None
    assert end.result == {"number": 7, "many": list(range(500_000))}


def test_the_work_is_done_in_another_process() -> None:
    assert run(os.getpid).result != os.getpid()


def test_what_python_and_c_print_is_handed_on_in_lines() -> None:
    def work() -> None:
        os.write(1, b"from python\n")
        LIBC.puts(b"from c")
        os.write(2, b"an error\n")

    lines: list[str] = []
    end = run_in_child(work, time_limit_s=30, should_stop=never, on_line=lines.append)
    assert sorted(lines) == sorted(end.log_tail) == ["an error", "from c", "from python"]


def test_an_exception_is_a_crash_with_its_traceback() -> None:
    def work() -> None:
        raise ValueError("no such column")

    with pytest.raises(SolverCrash, match="exit status 1") as crash:
        run(work)
    assert crash.value.log_tail[-1] == "ValueError: no such column"


def test_a_result_that_cannot_be_sent_is_a_crash() -> None:
    with pytest.raises(SolverCrash) as crash:
        run(lambda: threading.Lock())
    assert "not JSON serializable" in crash.value.log_tail[-1]


def test_a_signal_is_a_crash_with_the_end_of_the_output() -> None:
    def work() -> None:
        os.write(1, b"last words\n")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(SolverCrash, match="by signal 9") as crash:
        run(work)
    assert "last words" in crash.value.log_tail


def test_no_process_left_to_start_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise OSError("Resource temporarily unavailable")

    open_before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(in_process, "_fork", fail)
    with pytest.raises(SolverCrash, match="no process can be started"):
        run(os.getpid)
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_a_child_that_overruns_is_killed() -> None:
    begun = time.monotonic()
    end = run(lambda: time.sleep(60), time_limit_s=0.3)
    assert time.monotonic() - begun < 0.3 + ROOM_S
    assert (end.interrupted, end.result) == ("time_limit", None)


def test_a_child_is_killed_when_a_stop_is_asked_for() -> None:
    begun = time.monotonic()
    end = run_in_child(
        lambda: time.sleep(60),
        time_limit_s=60,
        should_stop=lambda: time.monotonic() > begun + 0.2,
        on_line=ignore,
    )
    assert time.monotonic() - begun < 0.2 + ROOM_S
    assert (end.interrupted, end.result) == ("stop", None)


def test_an_error_while_following_the_output_leaves_no_child() -> None:
    def work() -> None:
        os.write(1, f"{os.getpid()}\n".encode())
        time.sleep(60)

    pids: list[int] = []

    def fail(line: str) -> None:
        pids.append(int(line))
        raise RuntimeError("no room for the log")

    with pytest.raises(RuntimeError):
        run_in_child(work, time_limit_s=30, should_stop=never, on_line=fail)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_a_process_with_several_threads_may_have_children() -> None:
    """Warnings are errors here, and Python 3.12 warns of forks beside other threads."""
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        assert run(threading.active_count).result == 1
    finally:
        release.set()
        thread.join()


def test_children_do_not_hear_ctrl_c() -> None:
    def work() -> str:
        os.kill(os.getpid(), signal.SIGINT)
        return "still here"

    assert run(work).result == "still here"


PARENT = """
import os, time
from planner.milp.in_process import run_in_child

def work():
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(60)

run_in_child(
    work,
    time_limit_s=60,
    should_stop=lambda: False,
    on_line=lambda line: print(line, flush=True),
)
"""


def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", PARENT]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and is_running(child):
        time.sleep(0.05)
    assert not is_running(child)
