"""The supervisor's end of a solver process: order it, read its events, stop it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

from workers.solver_server import INTERRUPT, PIPES

READ_BYTES = 1 << 16
DRAIN_S = 1.0
KILL_S = 2.0
STDERR_LINES = 20


class SolverChild:
    """A solver process in a session and process group of its own, forked by the solver server.

    It dies when this object is closed, when this process dies, and when the server dies. Raises
    `OSError`, and leaves nothing behind, if the order cannot be sent.
    """

    def __init__(self, orders: socket.socket, order: Mapping[str, Any]) -> None:
        self.pid: int | None = None
        """Known once it runs."""
        self.exit_code: int | None = None
        """None while it runs; negative = the signal that killed it."""
        self.refused: str | None = None
        """Why it could not be started."""
        self.is_lost = False
        """Whether the server died, and the process with it."""
        self.stderr_tail: list[str] = []
        # Solvers leave files behind when they are killed; these go with the folder.
        self._files = tempfile.TemporaryDirectory(prefix="loadmaster-")
        with contextlib.ExitStack() as undo:
            undo.callback(self._files.cleanup)
            self._stdin, pipes, self._connection = _send(orders, self._files.name)
            for stream in (self._stdin, *pipes, self._connection):
                undo.callback(stream.close)
            self._events, self._errors = (_Lines(pipe) for pipe in pipes)
            self._status = _Lines(self._connection)
            self._selector = undo.enter_context(selectors.DefaultSelector())
            for lines in (self._status, self._events, self._errors):
                self._selector.register(lines.stream, selectors.EVENT_READ, lines)
            line = json.dumps(order, separators=(",", ":")).encode() + b"\n"
            self._sender = _started(self._write, line)
            undo.pop_all()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or will never start."""
        return self.exit_code is not None or self.refused is not None or self.is_lost

    def events(self, timeout_s: float) -> Iterator[dict[str, Any]]:
        """Events that arrive within `timeout_s`; ends early when something has arrived."""
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
            elif lines is self._status:
                self._note(complete)
            else:
                for line in complete:
                    yield from self._parse(line)

    def remaining_events(self) -> Iterator[dict[str, Any]]:
        """What an ended process had still written."""
        deadline = time.monotonic() + DRAIN_S
        while self._selector.get_map() and time.monotonic() < deadline:
            yield from self.events(0.05)

    def interrupt(self) -> None:
        """Ask it to stop and answer with its best."""
        with contextlib.suppress(OSError):
            self._connection.sendall(INTERRUPT)

    def close(self) -> None:
        """Kill what is left of the process group and release everything."""
        self._end()
        self._selector.close()
        # Before the sender is waited for: without a reader it ends.
        for lines in (self._status, self._events, self._errors):
            lines.stream.close()
        self._sender.join()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        self._files.cleanup()

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + KILL_S
        while not self.is_over and time.monotonic() < deadline:
            for _ in self.events(0.05):
                pass
        if self.exit_code is None and self.pid is not None:
            # The server is dead or stuck: nobody else ends what the solver started.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._stdin.write(line)
            self._stdin.flush()

    def _note(self, lines: list[bytes]) -> None:
        for line in lines:
            said = json.loads(line)
            self.pid = said.get("pid", self.pid)
            self.exit_code = said.get("exit_code", self.exit_code)
            self.refused = said.get("error", self.refused)
        self.is_lost = self._status.ended and self.exit_code is None and self.refused is None

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
    """Whole lines of a pipe or a connection, as they come."""

    def __init__(self, stream: IO[bytes] | socket.socket) -> None:
        self.stream = stream
        self.ended = False
        self._parts: list[bytes] = []
        os.set_blocking(stream.fileno(), False)

    def read(self) -> list[bytes]:
        try:
            data = os.read(self.stream.fileno(), READ_BYTES)
        except BlockingIOError:
            return []
        except ConnectionError:
            data = b""
        self.ended = not data
        *complete, rest = data.split(b"\n")
        if complete:
            complete[0] = b"".join(self._parts) + complete[0]
            self._parts = []
        if rest:
            self._parts.append(rest)
        return [line for line in complete if line]


def _send(
    orders: socket.socket, files: str
) -> tuple[IO[bytes], tuple[IO[bytes], IO[bytes]], socket.socket]:
    """Order a solver; this side's ends of its stdin, of stdout and stderr, and the connection."""
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        far: list[int] = []
        near: list[IO[bytes]] = []
        for fd in range(PIPES):
            read, write = os.pipe()
            given, kept = (read, write) if fd == 0 else (write, read)
            theirs.callback(os.close, given)
            far.append(given)
            file = os.fdopen(kept, "wb") if fd == 0 else os.fdopen(kept, "rb", buffering=0)
            near.append(ours.enter_context(file))
        connection, far_end = socket.socketpair()
        ours.enter_context(connection)
        theirs.enter_context(far_end)
        message = json.dumps({"files": files}).encode()
        socket.send_fds(orders, [message], [*far, far_end.fileno()])
        ours.pop_all()
    stdin, stdout, stderr = near
    return stdin, (stdout, stderr), connection


def _started(write: Callable[[bytes], None], line: bytes) -> threading.Thread:
    """A thread that writes, because a child that does not read must not hold up its supervisor."""
    thread = threading.Thread(target=write, args=(line,), daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(str(error)) from error
    return thread
