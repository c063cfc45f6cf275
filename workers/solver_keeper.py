"""Keeps a solver server running for the worker's processes: starts it, and starts it again."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from workers.solver_server import ORDERS_FD, PARENT_PID, receive, tell

logger = logging.getLogger(__name__)

# Solvers see these and no others: no addresses of databases or brokers, no secrets.
PASSED_ON = (
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH"),
    # Which CPU the compiled code is for that an image brings.
    "NUMBA_CPU_NAME",
)
PACKAGES = Path(__file__).parents[1]
RETRY_S = 1.0
# How long a process waits for room among the orders that no server has taken.
SEND_S = 2.0


class SolverKeeper:
    """The server of one worker. Made before the worker's pool is forked, which then shares
    `orders`; started in the main process, on whose life the server depends.

    Orders that are sent while no server runs wait for the next one. If the server cannot be
    started they are refused with the reason.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.orders, self._received = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.orders.settimeout(SEND_S)
        self._received.setblocking(False)
        self._command = command
        self._stopping = threading.Event()
        self._server: subprocess.Popen[bytes] | None = None
        # The kernel takes the end of the thread that started it for the death of the parent.
        self._thread = threading.Thread(target=self._keep, name="solver-keeper", daemon=True)

    def start(self) -> None:
        """Start the server, and keep it running."""
        self._thread.start()

    def stop(self) -> None:
        """End the server and its solvers, and take no more orders."""
        self._stopping.set()
        while self._thread.is_alive():
            server = self._server
            if server is not None:
                server.kill()
            self._thread.join(0.1)
        self.orders.close()
        self._received.close()

    def _keep(self) -> None:
        while not self._stopping.is_set():
            reason = self._run_server()
            if reason is not None and not self._stopping.is_set():
                logger.error("solvers cannot be started: %s", reason)
                self._refuse(reason)
                self._stopping.wait(RETRY_S)

    def _run_server(self) -> str | None:
        """Until the server ends; returns why it could not begin, if it could not."""
        try:
            server = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=server_environment(os.environ, self._received.fileno()),
                pass_fds=(self._received.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            return str(error)
        self._server = server
        with server:
            assert server.stdout is not None
            is_ready = bool(server.stdout.readline())
            exit_code = server.wait()
        self._server = None
        if is_ready:
            if not self._stopping.is_set():
                logger.warning("the solver server ended with exit code %s", exit_code)
            return None
        return f"the solver server ended with exit code {exit_code} before it could serve"

    def _refuse(self, reason: str) -> None:
        while (order := receive(self._received)) is not None:
            tell(order.connection, error=reason)
            order.close()


def server_environment(own: Mapping[str, str], orders_fd: int) -> dict[str, str]:
    """The allowed variables, where to find the packages, and what the server has to know."""
    passed = {name: own[name] for name in PASSED_ON if name in own}
    path = [str(PACKAGES), *filter(None, [own.get("PYTHONPATH")])]
    return {
        **passed,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        # BLAS would start threads when it is imported, and the server must not have any.
        "OPENBLAS_NUM_THREADS": "1",
        PARENT_PID: str(os.getpid()),
        ORDERS_FD: str(orders_fd),
    }
