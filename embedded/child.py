"""One supervised child process: spawned to die with its parent, watched, restarted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from planner.process_guard import die_with_parent, signal_in_words

SHORT_LIFE_S = 10.0
FIRST_RESTART_DELAY_S = 0.1
LONGEST_RESTART_DELAY_S = 1.5


def _prepare_child(parent: int) -> Callable[[], None]:
    """What runs in the child between fork and exec: default signals, death with its parent.

    The kernel sends the parent-death signal when the *thread* that forked ends (prctl(2)), so
    children are spawned from the main thread only.
    """

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        die_with_parent(parent)

    return prepare


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str],
    working_dir: Path,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a command in a process group of its own; it is killed when this process dies."""
    with log.open("ab") as sink:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=working_dir,
            pass_fds=pass_fds,
            process_group=0,
            preexec_fn=_prepare_child(os.getpid()),
        )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to whatever is left in the process group that this child led."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


class Child:
    """A named child that is started again whenever it ends.

    `start_process` spawns it. `failures` counts the ends in a row that came within
    `SHORT_LIFE_S` of the start, `failed_starts` those with an error before it ever lived longer.
    """

    def __init__(
        self,
        name: str,
        log: Path,
        start_process: Callable[[], subprocess.Popen[bytes]],
        announce: Callable[[str], None],
    ) -> None:
        self.name = name
        self.log = log
        self.failures = 0
        self.failed_starts = 0
        self._start_process = start_process
        self._announce = announce
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._restart_at = 0.0
        self._has_stayed_up = False

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self._process = self._start_process()
        self._started_at = time.monotonic()
        self._announce(f"{self.name} started (process {self._process.pid})")

    def tend(self) -> None:
        """Notice an end, and start again when the time has come."""
        if self._process is None:
            if time.monotonic() >= self._restart_at:
                self.start()
            return
        status = self._process.poll()
        lived_s = time.monotonic() - self._started_at
        self._has_stayed_up |= lived_s >= SHORT_LIFE_S
        if status is None:
            return
        kill_group(self._process)
        self._process = None
        if status > 0 and not self._has_stayed_up:
            self.failed_starts += 1
        self.failures = self.failures + 1 if lived_s < SHORT_LIFE_S else 1
        delay_s = min(
            FIRST_RESTART_DELAY_S * 2 ** min(self.failures - 1, 10),
            LONGEST_RESTART_DELAY_S,
        )
        self._restart_at = time.monotonic() + delay_s
        again = f", {self.failures} times in a row" if self.failures > 1 else ""
        self._announce(
            f"{self.name} ended ({_in_words(status)}{again}); "
            f"starting it again in {delay_s:.1f} s; its log is {self.log}"
        )

    def stop(self, within_s: float) -> None:
        """SIGTERM, then SIGKILL to the whole group once `within_s` has passed."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._announce(f"{self.name} did not stop within {within_s:.1f} s and is killed")
        kill_group(process)
        process.wait()


def last_line(log: Path) -> str:
    """The last line of a log that says something."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _in_words(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    return f"killed by {signal_in_words(-status)}"
