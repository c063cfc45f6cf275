"""The process that forks solvers."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import NoReturn

from workers.solver_server import SolverServer


def _solve() -> NoReturn:
    os._exit(0)


def listener_of_ended_solver(server: SolverServer, far_orders: socket.socket) -> Callable[[], None]:
    """Order a solver, which ends at once: what the server does when its connection says more."""
    ours, theirs = socket.socketpair()
    null = os.open(os.devnull, os.O_RDWR)
    given = [null, null, null, theirs.fileno()]
    socket.send_fds(far_orders, [b'{"files": "/tmp"}'], given)
    os.close(null)
    theirs.close()
    server._take()
    ours.close()
    [child] = server._connections
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    [key] = server._selector.get_map().values()
    listen: Callable[[], None] = key.data
    return listen


def test_a_solver_that_is_reaped_before_its_connection_is_looked_at() -> None:
    """Both are in one batch of events: the end of the connection, and that of the solver."""
    far_orders, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with far_orders, orders:
        orders.setblocking(False)
        server = SolverServer(orders, _solve)
        server._woken.setblocking(False)
        listen = listener_of_ended_solver(server, far_orders)
        server._reap()
        assert not server._connections
        listen()
        server._close()
