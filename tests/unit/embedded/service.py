"""A real `loadmaster serve` in a directory of its own, watched through /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

from embedded.data_dir import read_holder

ROOT = Path(__file__).resolve().parents[3]
# The machine may be busy with other things: waiting ends early when it can.
PATIENCE_S = 60.0
PROGRAMS = {"worker": b"celery", "api": b"uvicorn", "broker": b"-server"}


def wait_until(condition: Callable[[], bool], within_s: float = PATIENCE_S) -> float:
    """Seconds until the condition held; fails if it did not in time."""
    started = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - started
        assert waited_s < within_s, f"not within {within_s} s"
        time.sleep(0.02)
    return time.monotonic() - started


class Service:
    """The supervisor as a child process, and what it has started."""

    def __init__(self, data_dir: Path, *options: str, **environment: str) -> None:
        self.data_dir = data_dir
        self.output = data_dir.parent / f"{data_dir.name}.out"
        own = {k: v for k, v in os.environ.items() if not k.startswith("LOADMASTER_")}
        with self.output.open("wb") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "client", "serve", "--data-dir", str(data_dir), *options],
                env={"PYTHONPATH": str(ROOT), **own, **environment},
                cwd=ROOT,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # Whoever runs the tests may ignore hang-ups (nohup), and that is inherited.
                preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
            )

    @property
    def url(self) -> str:
        return str(read_holder(self.data_dir)["url"])

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.output.read_text()
            holder = read_holder(self.data_dir)
            return holder.get("pid") == self.process.pid and bool(holder.get("ready"))

        wait_until(is_ready)

    def child(self, name: str) -> int | None:
        """Process id of the supervisor's own child of that name."""
        for pid in _processes():
            if _parent(pid) == self.process.pid and PROGRAMS[name] in _read(pid, "cmdline"):
                return pid
        return None

    def processes(self) -> list[int]:
        """Everything living that the service started, however deep.

        Known by its environment or by its working directory: the broker writes its title over
        its environment.
        """
        mark = f"LOADMASTER_DATA_DIR={os.path.abspath(self.data_dir)}".encode()
        return [
            pid
            for pid in _processes()
            if mark in _read(pid, "environ").split(b"\0")
            or _working_dir(pid).is_relative_to(self.data_dir)
        ]

    def answers(self, path: str = "/healthz") -> bool:
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def log(self) -> str:
        return (self.data_dir / "logs" / "supervisor.log").read_text()

    def clean_up(self) -> None:
        """Leave nothing behind, whatever the test found."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)


Start = Callable[..., Service]


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _working_dir(pid: int) -> Path:
    try:
        return Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return Path("/")


def _parent(pid: int) -> int | None:
    fields = _read(pid, "stat").rpartition(b")")[2].split()
    return int(fields[1]) if len(fields) > 1 else None
