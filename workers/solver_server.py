"""``python -m workers.solver_server``: a process that has imported the planner and forks solvers.

Importing the planner takes most of a second; a fork of a process that has done so takes
milliseconds. Orders come over a datagram socket that the worker's processes share: each message
carries the solver's stdin, stdout and stderr and a connection of its own. On that connection the
server says the solver's process id and later how it ended; `INTERRUPT` on it is passed on as
SIGINT, and its end (the supervisor closed it, or died) kills the solver and its process group.

The server has one thread and starts none, so that a fork copies no lock that is held. It ends
when its parent does, and the solvers with it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from planner.process_guard import die_with_parent
from workers import solver_process

PARENT_PID = "LOADMASTER_PARENT_PID"
ORDERS_FD = "LOADMASTER_ORDERS_FD"
READY = b"ready\n"
INTERRUPT = b"i"
MESSAGE_BYTES = 4096
PIPES = 3
"""Descriptors of an order: stdin, stdout and stderr, and then the connection."""


@dataclass(frozen=True)
class Order:
    """What a supervisor sent: the folder for the solver's files, its pipes, the connection."""

    files: str
    pipes: list[int]
    connection: socket.socket

    def close(self) -> None:
        """Release the descriptors."""
        for fd in self.pipes:
            os.close(fd)
        self.connection.close()


def receive(orders: socket.socket) -> Order | None:
    """The next order; None if there is none."""
    try:
        message, fds, _, _ = socket.recv_fds(orders, MESSAGE_BYTES, PIPES + 1)
    except BlockingIOError:
        return None
    if len(fds) != PIPES + 1:
        # This process has too many open files: the supervisor sees the connection end.
        for fd in fds:
            os.close(fd)
        return None
    *pipes, connection = fds
    order = Order(json.loads(message)["files"], pipes, socket.socket(fileno=connection))
    order.connection.setblocking(False)
    return order


def tell(connection: socket.socket, **fields: Any) -> None:
    """A line of JSON to the supervisor, who may be gone."""
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(fields).encode() + b"\n")


class SolverServer:
    """Forks `solve` for each order until its input ends."""

    def __init__(self, orders: socket.socket, solve: Callable[[], NoReturn]) -> None:
        self._orders = orders
        self._solve = solve
        self._pid = os.getpid()
        self._connections: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_up, self._woken = socket.socketpair()

    def serve(self) -> None:
        """Take orders; returns when the worker's main process has closed this one's stdin."""
        self._orders.setblocking(False)
        for end in (self._wake_up, self._woken):
            end.setblocking(False)
        # Solvers begin with SIGINT blocked, so that one that comes early waits for its handler.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        # A service manager may signal every process there is: this one goes with its parent.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_up.fileno())
        self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, self._end)
        self._selector.register(self._orders, selectors.EVENT_READ, self._take)
        self._selector.register(self._woken, selectors.EVENT_READ, self._reap)
        self._serving = True
        while self._serving:
            for key, _ in self._selector.select():
                key.data()

    def _end(self) -> None:
        self._serving = False

    def _take(self) -> None:
        order = receive(self._orders)
        if order is None:
            return
        try:
            child = os.fork()
        except OSError as error:
            tell(order.connection, error=str(error))
            order.close()
            return
        if child == 0:
            self._become_solver(order)
        for fd in order.pipes:
            os.close(fd)
        tell(order.connection, pid=child)
        self._connections[child] = order.connection
        self._selector.register(
            order.connection, selectors.EVENT_READ, lambda: self._listen(child, order.connection)
        )

    def _listen(self, child: int, connection: socket.socket) -> None:
        if self._connections.get(child) is not connection:
            # It was reaped earlier in the same batch of events, and its connection closed.
            return
        try:
            message = connection.recv(MESSAGE_BYTES)
        except ConnectionError:
            message = b""
        if message:
            os.kill(child, signal.SIGINT)
        else:
            # Its exit is noticed by its signal; until then nothing more is to be heard.
            self._selector.unregister(connection)
            _kill(child)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(MESSAGE_BYTES)
        for child in list(self._connections):
            # Killing the group first: once the child is waited for, its number may be another's.
            ended = os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                continue
            _kill(child)
            _, status = os.waitpid(child, 0)
            connection = self._connections.pop(child)
            with contextlib.suppress(KeyError):
                self._selector.unregister(connection)
            tell(connection, exit_code=os.waitstatus_to_exitcode(status))
            connection.close()

    def _become_solver(self, order: Order) -> NoReturn:
        """What the forked child does: it never returns into the server's loop."""
        try:
            os.setsid()
            die_with_parent(self._pid)
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            for fd, pipe in enumerate(order.pipes):
                os.dup2(pipe, fd)
            order.close()
            self._close()
            os.environ["TMPDIR"] = order.files
            tempfile.tempdir = None
            gc.enable()
            self._solve()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def _close(self) -> None:
        """Give up what is the server's, so that its end is the end of its connections."""
        self._selector.close()
        for end in (self._orders, self._wake_up, self._woken, *self._connections.values()):
            end.close()


def _kill(child: int) -> None:
    """Kill a child that was not waited for yet, and its group, which it may not lead yet."""
    os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def main() -> None:
    """Import the planner, say so, serve."""
    die_with_parent(int(os.environ.pop(PARENT_PID)))
    orders = socket.socket(fileno=int(os.environ.pop(ORDERS_FD)))
    orders.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    solver_process.load_solvers()
    # What was imported stays: collecting it in a child would only copy it page by page.
    gc.collect()
    gc.freeze()
    os.write(1, READY)
    SolverServer(orders, solver_process.main).serve()


if __name__ == "__main__":
    main()
