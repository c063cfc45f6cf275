"""Orders of solvers that cannot be sent leave nothing behind."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from workers.solver_child import SolverChild


@pytest.fixture
def orders() -> Iterator[socket.socket]:
    """Where orders can be sent; nobody answers them."""
    far, near = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with far, near:
        yield near


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def no_more(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def third_pipe_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    pipes = [os.pipe(), os.pipe()]
    left = iter(pipes)

    def pipe() -> tuple[int, int]:
        return next(left, None) or no_more()

    monkeypatch.setattr(os, "pipe", pipe)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda patch: patch.setattr(os, "pipe", no_more),
        third_pipe_fails,
        lambda patch: patch.setattr(socket, "socketpair", no_more),
        lambda patch: patch.setattr(socket, "send_fds", no_more),
        lambda patch: patch.setattr(selectors, "DefaultSelector", no_more),
        lambda patch: patch.setattr(threading.Thread, "start", no_thread),
    ],
)
def test_nothing_stays_open(
    orders: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    prepare: Callable[[pytest.MonkeyPatch], None],
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = open_files()
    with monkeypatch.context() as patch:
        prepare(patch)
        with pytest.raises(OSError, match=r"open files|new thread"):
            SolverChild(orders, {})
    assert open_files() == before
    assert list(tmp_path.iterdir()) == []
