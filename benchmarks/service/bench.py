"""The services that are measured: PostgreSQL or SQLite, Valkey, a worker, and three APIs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.service import stamping_solver
from tests.integration.topology import Member, Topology

ADDRESS = "/v1/pipeline-schedules"
WITH_KEYS, WITHOUT_KEYS, BARE = "keys", "no keys", "bare route"
DATABASES = ("SQLite", "PostgreSQL")
EXAMPLE = Path("planner/examples/gpt-14.2b-8xA100-40GB.json")
ANY_NUMBER = "1000000000"
PATIENCE_S = 120.0


@dataclass
class Bench:
    """The addresses, a key, and three jobs: one that is over, one that runs, one that waits."""

    ports: dict[str, int]
    key: str
    jobs: dict[str, str] = field(default_factory=dict)
    _number: int = 0

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
    environment = {
        "LOADMASTER_SOLVER_COMMAND": json.dumps([sys.executable, "-m", stamping_solver.__name__]),
        # Two slots on two cores: the solve that runs for ever takes one.
        "LOADMASTER_SOLVER_THREADS": "1",
        "LOADMASTER_REQUESTS_PER_MINUTE": ANY_NUMBER,
        "LOADMASTER_METRICS_PUBLIC": "true",
    }
    topology = Topology(apis=2, workers=1, environment=environment)
    on_sqlite = {"LOADMASTER_DATABASE_URL": f"sqlite:///{topology.folder}/loadmaster.db"}
    if database == "SQLite":
        topology.use(on_sqlite)
    names = {WITH_KEYS: "api-1", WITHOUT_KEYS: "api-2", BARE: "bare"}
    topology.members["api-2"].environment["LOADMASTER_AUTHENTICATION"] = "off"
    ...
    with topology:
        yield Bench({}, "")
