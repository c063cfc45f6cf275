"""The supervisor's end of a solver process: start it, read its events, stop it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from workers.solver_process import SUPERVISOR_PID

# A solver process sees these and no others: no addresses of databases or brokers, no secrets.
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")
PACKAGES = Path(__file__).parents[1]
READ_BYTES = 1 << 16
DRAIN_S = 1.0
STDERR_LINES = 20


class SolverChild:
    """A solver process in a session and process group of its own.

    Made, used and closed in one thread, which has to live as long as the process: the kernel
    takes the end of that thread for the death of the parent. Raises `OSError` if the command
    cannot be started.
    """

    def __init__(self, command: Sequence[str], order: Mapping[str, Any]) -> None:
        # Solvers leave files behind when they are killed; these go with the folder.
        self._files = tempfile.TemporaryDirectory(prefix="loadmaster-")
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=child_environment(os.environ, self._files.name),
                start_new_session=True,
            )
        except OSError:
            self._files.cleanup()
            raise
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        self._stdin = stdin
        self._events, self._errors = _Lines(stdout), _Lines(stderr)
        self._selector = selectors.DefaultSelector()
        for lines in (self._events, self._errors):
            self._selector.register(lines.stream, selectors.EVENT_READ, lines)
        self.stderr_tail: list[str] = []
        line = json.dumps(order, separators=(",", ":")).encode() + b"\n"
        # A thread, because a child that does not read must not hold up its supervisor.
        self._sender = threading.Thread(target=self._send, args=(line,), daemon=True)
        self._sender.start()

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative = the signal that killed it."""
        return self._process.poll()

    def events(self, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Events that arrive within `timeout_s`; ends early when some have arrived."""
        if not self._selector.get_map():
            time.sleep(timeout_s)
            return
        for key, _ in self._selector.select(timeout_s):
            lines: _Lines = key.data
            complete = lines.read()
            if lines.ended:
                self._selector.unregister(lines.stream)
            if lines is self._errors:
                self._keep(complete)
                continue
            for line in complete:
                yield from self._parse(line)

    def remaining_events(self) -> Iterator[dict[str, Any]]:
        """What an ended process had still written."""
        deadline = time.monotonic() + DRAIN_S
        while self._selector.get_map() and time.monotonic() < deadline:
            yield from self.events(0.05)

    def interrupt(self) -> None:
        """Ask it to stop and answer with its best."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Kill what is left of the process group and release everything."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        self._sender.join()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        for stream in (self._events.stream, self._errors.stream):
            stream.close()
        self._files.cleanup()

    def _send(self, line: bytes) -> None:
        # Stdin stays open afterwards: its end tells the child that its supervisor is gone.
        with contextlib.suppress(OSError):
            self._stdin.write(line)
            self._stdin.flush()

    def _parse(self, line: bytes) -> Iterator[dict[str, Any]]:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict) and isinstance(event.get("event"), str):
            yield event
        else:
            self._keep([line])

    def _keep(self, lines: list[bytes]) -> None:
        self.stderr_tail += [line.decode(errors="replace") for line in lines]
        del self.stderr_tail[:-STDERR_LINES]


class _Lines:
    """Whole lines of a pipe, as they come."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.ended = False
        self._parts: list[bytes] = []
        os.set_blocking(stream.fileno(), False)

    def read(self) -> list[bytes]:
        try:
            data = os.read(self.stream.fileno(), READ_BYTES)
        except BlockingIOError:
            return []
        self.ended = not data
        *complete, rest = data.split(b"\n")
        if complete:
            complete[0] = b"".join(self._parts) + complete[0]
            self._parts = []
        if rest:
            self._parts.append(rest)
        return [line for line in complete if line]


def child_environment(own: Mapping[str, str], files: str) -> dict[str, str]:
    """The allowed variables, where to find the packages and to put files, and the supervisor."""
    passed = {name: own[name] for name in PASSED_ON if name in own}
    path = [str(PACKAGES), *filter(None, [own.get("PYTHONPATH")])]
    return {
        **passed,
        "PYTHONPATH": os.pathsep.join(path),
        "TMPDIR": files,
        "PYTHONUNBUFFERED": "1",
        SUPERVISOR_PID: str(os.getpid()),
    }
