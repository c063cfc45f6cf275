"""Python code in a disposable child, forked from a process that has imported everything.

A solver library may crash, hang or leak, and cannot be told to stop; a child of its own can be
killed. Forked, it starts within milliseconds where a new interpreter would first spend most of a
second importing.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import selectors
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NoReturn, TypeVar

from planner.errors import SolverCrash
from planner.milp.output import OutputLines
from planner.milp.process import Interrupt
from planner.process_guard import die_with_parent

POLL_S = 0.05
_LIBC = ctypes.CDLL(None)

Result = TypeVar("Result")


@dataclass(frozen=True)
class ChildEnd(Generic[Result]):
    """How a child ended after `elapsed_s`. `result` is what its work returned; None if it was
    killed before that, for the reason that `interrupted` gives."""

    result: Result | None
    interrupted: Interrupt | None
    elapsed_s: float
    log_tail: list[str]


def run_in_child(
    work: Callable[[], Result],
    *,
    time_limit_s: float,
    should_stop: Callable[[], bool],
    on_line: Callable[[str], None],
) -> ChildEnd[Result]:
    """Call `work` in a forked child and return what it returns, which must be JSON: a
    child that went wrong cannot make its parent run anything.

    The child is killed at the time limit or when a stop is asked for, whichever is first.
    `on_line` gets what it prints, C libraries included. Raises `SolverCrash` with the end of that
    if the child dies by itself, be it of a signal or of an exception, or cannot be started.

    The work may use whatever other threads of this process cannot be holding a lock of.
    """
    begun = time.monotonic()
    result_read, result_write = os.pipe()
    output_read, output_write = os.pipe()
    # What the C library has buffered would come out in both processes.
    _LIBC.fflush(None)
    parent = os.getpid()
    try:
        child = _fork()
    except OSError as error:
        for fd in (result_read, result_write, output_read, output_write):
            os.close(fd)
        raise SolverCrash(f"no process can be started: {error}", []) from error
    if child == 0:
        _work_and_exit(work, parent, result_write, output_write)
    os.close(result_write)
    os.close(output_write)
    try:
        follower = _Follower(child, result_read, OutputLines(output_read, on_line))
        interrupted = follower.follow(begun + time_limit_s, should_stop)
        status = follower.status
    finally:
        os.close(result_read)
        os.close(output_read)
    tail = list(follower.output.tail)
    if status == 0:
        result = json.loads(b"".join(follower.result))
        return ChildEnd(result, None, time.monotonic() - begun, tail)
    if interrupted is None:
        raise SolverCrash(f"the solver's process ended {_in_words(status)}", tail)
    return ChildEnd(None, interrupted, time.monotonic() - begun, tail)


def _fork() -> int:
    with warnings.catch_warnings():
        # Python 3.12 and later warn in a process with several threads: the child has only the
        # thread that forked, so a lock that another one held stays locked in it for ever. Here
        # the child only builds and solves a model and never returns from that. Python and the C
        # library make their own locks (imports, logging, memory) anew in a child; numpy's BLAS
        # ends its threads before a fork; the solver libraries start threads only in children; and
        # the threads that a solver process has of its own wait for its supervisor, with locks of
        # streams that no child touches.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _work_and_exit(
    work: Callable[[], object], parent: int, result_fd: int, output_fd: int
) -> NoReturn:
    """What the child does: never returns into its parent's code, nor runs its exit handlers."""
    status = 1
    try:
        # Ctrl-C in a terminal reaches children too; whether to stop is for the parent to say.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent(parent)
        os.dup2(output_fd, 1)
        os.dup2(output_fd, 2)
        # Collecting would write to, hence copy, most of what is shared with the parent.
        gc.disable()
        answer = json.dumps(work()).encode()
        _LIBC.fflush(None)
        with os.fdopen(result_fd, "wb") as stream:
            stream.write(answer)
        status = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _in_words(status: int) -> str:
    return f"with exit status {status}" if status > 0 else f"by signal {-status}"


class _Follower:
    """Reads a child's two pipes until it has ended; kills it when it has to."""

    def __init__(self, child: int, result_fd: int, output: OutputLines) -> None:
        self.output = output
        self.result: list[bytes] = []
        self._child = child
        self._result_fd = result_fd
        self._status: int | None = None
        os.set_blocking(result_fd, False)

    @property
    def status(self) -> int:
        """Exit status of the ended child, or minus the signal that ended it."""
        assert self._status is not None
        return self._status

    def follow(self, deadline: float, should_stop: Callable[[], bool]) -> Interrupt | None:
        """Until the child has ended by itself, or was killed for the reason returned."""
        interrupted: Interrupt | None = None
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._result_fd, selectors.EVENT_READ, self._read_result)
                selector.register(self.output.fd, selectors.EVENT_READ, self._read_output)
                while interrupted is None and not self._has_ended():
                    left_s = max(0.0, deadline - time.monotonic())
                    for key, _ in selector.select(min(POLL_S, left_s)):
                        if not key.data():
                            selector.unregister(key.fd)
                    if not left_s:
                        interrupted = "time_limit"
                    elif should_stop():
                        interrupted = "stop"
        finally:
            if self._status is None:
                os.kill(self._child, signal.SIGKILL)
                self._reap(0)
        # The child may have ended before everything it wrote was read.
        while self._read_output() or self._read_result():
            pass
        return interrupted

    def _has_ended(self) -> bool:
        # The end of its output is the end of the child, to which only moments are missing.
        return self._reap(os.WNOHANG if self.output.is_open else 0)

    def _reap(self, options: int) -> bool:
        pid, status = os.waitpid(self._child, options)
        if pid:
            self._status = os.waitstatus_to_exitcode(status)
        return pid != 0

    def _read_output(self) -> bool:
        return self.output.is_open and self.output.pump(0)

    def _read_result(self) -> bool:
        try:
            chunk = os.read(self._result_fd, 1 << 20)
        except BlockingIOError:
            return False
        self.result.append(chunk)
        return bool(chunk)
