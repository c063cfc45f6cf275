"""The services that are measured: a database, Valkey, a worker, two APIs and the bare route."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from benchmarks.common import FOLDER
from benchmarks.service import bare, stamping_solver
from benchmarks.service.load import Load
from tests.integration.topology import Member, Topology, free_port

ADDRESS = "/v1/pipeline-schedules"
WITH_KEYS, WITHOUT_KEYS, BARE = "keys", "no keys", "bare route"
SQLITE, POSTGRESQL = "SQLite", "PostgreSQL"
ROOT = FOLDER.parent
EXAMPLE = ROOT / "planner" / "examples" / "gpt-14.2b-8xA100-40GB.json"
PATIENCE_S = 120.0


@dataclass
class Bench:
    """Processes and ports of the servers, a key, and a job that is over and one that runs."""

    pids: dict[str, int]
    ports: dict[str, int]
    key: str
    jobs: dict[str, str] = field(default_factory=dict)
    _number: int = 0

    def load(self, server: str, concurrency: int, seconds: float, request: str) -> Load:
        """That many ask this server for so long."""
        return Load(self.pids[server], self.ports[server], request, concurrency, seconds)

    def request(self, server: str, method: str, path: str, body: Any = None) -> str:
        """The text of a request."""
        payload = "" if body is None else json.dumps(body)
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.ports[server]}"]
        if server == WITH_KEYS:
            lines.append(f"Authorization: Bearer {self.key}")
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(payload)}"]
        return "\r\n".join([*lines, "", payload])

    def client(self, server: str) -> httpx.Client:
        """A client of one of the servers."""
        headers = {"Authorization": f"Bearer {self.key}"} if server == WITH_KEYS else {}
        url = f"http://127.0.0.1:{self.ports[server]}"
        return httpx.Client(base_url=url, headers=headers, timeout=60)

    def new_problem(self, limit_s: float) -> dict[str, Any]:
        """A small request like no other."""
        self._number += 1
        stage = {"device": 0, "forward_ns": self._number, "backward_input_ns": 1}
        devices = [{"activation_memory_bytes": 1}]
        problem = {"micro_batches": 1, "devices": devices, "stages": [stage]}
        return {"problem": problem, "solver": {"time_limit_s": limit_s}}

    def prepare(self) -> None:
        """Make the jobs."""
        with self.client(WITHOUT_KEYS) as client:
            over = client.post(ADDRESS, json=example()).json()["id"]
            endless = self.new_problem(stamping_solver.ENDLESS_LIMIT_S)
            running = client.post(ADDRESS, json=endless).json()["id"]
            self.jobs = {"over": over, "running": running}
            for name, state in (("over", "succeeded"), ("running", "running")):
                wait_until(client, self.jobs[name], state)


def example() -> dict[str, Any]:
    """What the cache hits ask for, solved for five seconds."""
    body: dict[str, Any] = json.loads(EXAMPLE.read_text())
    return body | {"solver": {"time_limit_s": 5}}


def wait_until(client: httpx.Client, job_id: str, state: str) -> None:
    """Until a job is in this state."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := client.get(f"/v1/jobs/{job_id}").json())["state"] != state:
        if time.monotonic() > deadline:
            raise SystemExit(f"the job is not {state}: {found}")
        time.sleep(0.02)


@contextmanager
def started(database: str) -> Iterator[Bench]:
    """Everything, on this database, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="lm-") as folder:
        environment = _environment()
        if database == SQLITE:
            environment["LOADMASTER_DATABASE_URL"] = f"sqlite:///{folder}/loadmaster.db"
        with _measured(environment) as bench:
            yield bench


@contextmanager
def _measured(environment: dict[str, str]) -> Iterator[Bench]:
    topology = Topology(apis=2, workers=1, environment=environment)
    with_keys, without_keys = topology.members["api-1"], topology.members["api-2"]
    without_keys.environment |= {"LOADMASTER_AUTHENTICATION": "off"}
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", f"{bare.__name__}:create_app"]
    command += ["--port", str(port), "--no-access-log"]
    topology.members[BARE] = Member(BARE, topology.folder, command, with_keys.environment)
    topology.urls[BARE] = f"http://127.0.0.1:{port}"
    with topology:
        names = {WITH_KEYS: "api-1", WITHOUT_KEYS: "api-2", BARE: BARE}
        ports = {name: int(topology.urls[own].rpartition(":")[2]) for name, own in names.items()}
        made = topology.run("api", "loadmaster", "keys", "create", "--name", "benchmark")
        pids = {name: topology.members[own].pid for name, own in names.items()}
        bench = Bench(pids, ports, made.split()[-1])
        bench.prepare()
        yield bench


def _environment() -> dict[str, str]:
    return {
        "LOADMASTER_SOLVER_COMMAND": json.dumps([sys.executable, "-m", stamping_solver.__name__]),
        # Two slots on two cores: the solve that runs for ever takes one.
        "LOADMASTER_SOLVER_THREADS": "1",
        # The limit is counted, and not reached.
        "LOADMASTER_REQUESTS_PER_MINUTE": str(10**9),
        "PYTHONPATH": str(ROOT),
    }
