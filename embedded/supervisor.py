"""The whole service on one machine: one process that supervises broker, worker and API.

A child that dies is started again. On SIGINT, SIGTERM or SIGHUP the worker stops first (it stores
what its solvers have and gives running jobs back), then the API, then the broker. If this process
is killed, the kernel kills its children.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.settings import DEFAULT_DATA_DIR, Settings
from embedded import broker, commands
from embedded.access import TOKEN_FILE, Access, Authentication, decide_access
from embedded.child import Child, kill_group, last_line, spawn
from embedded.data_dir import DataDir
from embedded.errors import StartError
from embedded.listener import is_loopback, listen, url_of
from workers.capacity import default_concurrency

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8400

TICK_S = 0.2
BROKER_START_S = 5.0
FAILED_STARTS_BEFORE_GIVING_UP = 5
UNUSABLE_DATABASE = "the database cannot be brought up to date"
# Together below the 10 s in which everything has to be gone.
STOP_WITHIN_S = {"worker": 6.0, "api": 2.0, "broker": 1.0}


@dataclass(frozen=True)
class ServeOptions:
    """Where the service listens and keeps its files."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    data_dir: Path = DEFAULT_DATA_DIR
    # None = by where it listens, see `embedded.access`.
    authentication: Authentication | None = None
    token_file: bool = False
    anyone_on_the_network: bool = False


def serve(options: ServeOptions) -> None:
    """Run the service until a signal stops it. Raises `StartError` if it cannot start."""
    if sys.platform != "linux":
        raise StartError("the embedded service runs on Linux only; use docker or a Linux machine")
    os.umask(0o077)
    signals = _block_signals()
    with (
        DataDir(options.data_dir) as data,
        listen(options.host, options.port) as listener,
    ):
        access = decide_access(
            is_loopback=is_loopback(listener),
            authentication=options.authentication,
            token_file=options.token_file,
            anyone_on_the_network=options.anyone_on_the_network,
        )
        settings = access.environment(os.environ, options.host)
        Supervisor(data, listener, signals, access, settings).run()


def _block_signals() -> set[signal.Signals]:
    """Keep stop signals pending so that the main loop takes them when it is ready for them."""
    signals = {signal.SIGINT, signal.SIGTERM}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.add(signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals | {signal.SIGCHLD})
    return signals


class _Stopped(Exception):
    """A stop signal came."""


class Supervisor:
    """Starts the children in order, tends them, stops them in reverse order."""

    def __init__(
        self,
        data: DataDir,
        listener: socket.socket,
        signals: set[signal.Signals],
        access: Access,
        settings: Mapping[str, str],
    ) -> None:
        self._data = data
        self._access = access
        self._settings = settings
        self._listener = listener
        self._signals = signals
        self._url = url_of(listener)
        self._children: list[Child] = []
        self._log = (data.log_file("supervisor")).open("a", encoding="utf-8")

    def run(self) -> None:
        """Serve until a stop signal; leave no process and no file outside the data directory."""
        with contextlib.ExitStack() as cleanup:
            cleanup.enter_context(self._log)
            self._data.announce({"pid": os.getpid(), "url": self._url, "ready": False})
            try:
                self._start_children(cleanup)
                self._tend_until_ready()
                self._greet()
                while True:
                    self._pause()
                    self._tend()
            except _Stopped:
                pass
            finally:
                self._stop_children()

    def _start_children(self, cleanup: contextlib.ExitStack) -> None:
        broker_url = os.environ.get("LOADMASTER_BROKER_URL")
        folder: Path | None = None
        if not broker_url:
            folder, outside = broker.socket_folder(self._data.path)
            broker_url = broker.broker_url(folder)
            if outside:
                cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        for leftover in ("tmp", commands.METRICS):
            shutil.rmtree(self._data.path / leftover, ignore_errors=True)
        (self._data.path / "tmp").mkdir()
        environment = commands.child_environment(
            {**os.environ, **self._settings},
            slots=default_concurrency(Settings()),
            database_url=os.environ.get("LOADMASTER_DATABASE_URL") or self._data.database_url,
            broker_url=broker_url,
            data_dir=self._data.path,
        )
        self._run("migration", commands.migrate_command(), environment, UNUSABLE_DATABASE)
        if self._access.token_file:
            command = commands.token_command(self._token_file)
            self._run("token", command, environment, "the token file cannot be made")
        if folder is not None:
            self._start_broker(folder, environment)
        self._add("worker", environment)
        self._add("api", environment, self._listener.fileno())

    def _run(
        self, name: str, command: list[str], environment: dict[str, str], failure: str
    ) -> None:
        """Run a child to its end before anything else starts."""
        log = self._data.log_file(name)
        process = self._spawn(command, log, environment)
        try:
            while process.poll() is None:
                self._pause()
        finally:
            kill_group(process)
            process.wait()
        if process.returncode:
            raise StartError(f"{failure}: {last_line(log)} (see {log})")

    def _start_broker(self, folder: Path, environment: dict[str, str]) -> None:
        working_dir = self._data.path / "broker"
        # A starting worker has everything sent anew that is queued.
        shutil.rmtree(working_dir, ignore_errors=True)
        working_dir.mkdir()
        command = broker.server_command(broker.find_server(), folder, working_dir)
        log = self._data.log_file("broker")

        def start() -> subprocess.Popen[bytes]:
            (folder / broker.SOCKET_NAME).unlink(missing_ok=True)
            return self._spawn(command, log, environment)

        child = Child("broker", log, start, self._say)
        self._children.append(child)
        child.start()
        deadline = time.monotonic() + BROKER_START_S
        while not broker.answers(folder):
            self._pause(0.02)
            if time.monotonic() > deadline:
                raise StartError(f"the broker did not start: {last_line(log)} (see {log})")

    def _add(self, name: str, environment: dict[str, str], listening_fd: int | None = None) -> None:
        log = self._data.log_file(name)

        def start() -> subprocess.Popen[bytes]:
            if listening_fd is None:
                return self._spawn(commands.worker_command(), log, environment)
            command = commands.api_command(listening_fd)
            return self._spawn(command, log, environment, (listening_fd,))

        child = Child(name, log, start, self._say)
        self._children.append(child)
        child.start()

    def _spawn(
        self,
        command: list[str],
        log: Path,
        environment: dict[str, str],
        pass_fds: tuple[int, ...] = (),
    ) -> subprocess.Popen[bytes]:
        return spawn(
            command,
            log=log,
            environment=environment,
            working_dir=self._data.path,
            pass_fds=pass_fds,
        )

    def _tend_until_ready(self) -> None:
        while not self._api_answers():
            self._pause()
            self._tend()

    def _api_answers(self) -> bool:
        address = urllib.parse.urlsplit(self._url)
        connection = http.client.HTTPConnection(
            str(address.hostname), int(address.port or 0), timeout=0.5
        )
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status < 500
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _greet(self) -> None:
        self._data.announce({"pid": os.getpid(), "url": self._url, "ready": True})
        self._say(f"Loadmaster is ready at {self._url} (API description at {self._url}/docs)")
        self._say(f"the dashboard is at {self._url}/dashboard/")
        self._say(f"everything it keeps is in {self._data.path}; Ctrl-C stops it")
        if self._access.anyone_on_the_network:
            self._say("other machines can reach it, and it asks nobody for a key")
        if self._access.authentication == "keys":
            self._say("it asks for a key: `loadmaster keys create` makes one")
        if self._access.token_file:
            self._say(
                f"one is in {self._token_file}, and the loadmaster command finds it there; "
                "whoever can read that file can use the service"
            )

    @property
    def _token_file(self) -> Path:
        return self._data.path / TOKEN_FILE

    def _pause(self, at_most_s: float = TICK_S) -> None:
        """Wait for a tick, a child's end (then return at once) or a stop signal (then raise)."""
        caught = signal.sigtimedwait(self._signals | {signal.SIGCHLD}, at_most_s)
        if caught is not None and caught.si_signo != signal.SIGCHLD:
            self._say(f"{signal.Signals(caught.si_signo).name}: stopping")
            raise _Stopped

    def _tend(self) -> None:
        for child in self._children:
            child.tend()
            if child.failed_starts >= FAILED_STARTS_BEFORE_GIVING_UP:
                raise StartError(
                    f"the {child.name} does not start: {last_line(child.log)} (see {child.log})"
                )

    def _stop_children(self) -> None:
        order = {"worker": 0, "api": 1, "broker": 2}
        for child in sorted(self._children, key=lambda child: order[child.name]):
            child.stop(STOP_WITHIN_S[child.name])
        if self._children:
            self._say("stopped")

    def _say(self, message: str) -> None:
        line = f"{time.strftime('%H:%M:%S')} {message}"
        self._log.write(f"{time.strftime('%Y-%m-%d ')}{line}\n")
        self._log.flush()
        # The terminal or pipe behind stderr may be gone; the log file has the line.
        with contextlib.suppress(OSError):
            print(line, file=sys.stderr, flush=True)
