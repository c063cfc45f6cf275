"""What is measured, on one database."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

from benchmarks.service.bench import (
    ADDRESS,
    BARE,
    WITH_KEYS,
    WITHOUT_KEYS,
    Bench,
    example,
    wait_until,
)
from benchmarks.service.load import measure, summary
from benchmarks.service.stamping_solver import STAMPED_LIMIT_S

MANY = 32
STARTS = 60
STREAMS = 10
Figures = dict[str, Any]


def measure_all(bench: Bench, seconds: float) -> list[Figures]:
    """Every row, each with what it is of."""
    rows = []
    for server in (BARE, WITHOUT_KEYS, WITH_KEYS):
        poll = bench.request(server, "GET", f"/v1/jobs/{bench.jobs['running']}")
        for concurrency in (1, MANY):
            load = bench.load(server, concurrency, seconds, poll)
            what = "bare read" if server == BARE else "status poll"
            rows.append({"what": what, "server": server, "at_once": concurrency, **measure(load)})
    for server in (WITHOUT_KEYS, WITH_KEYS):
        hit = bench.request(server, "POST", ADDRESS, example())
        figures = measure(bench.load(server, 1, seconds, hit))
        rows.append({"what": "cache hit", "server": server, "at_once": 1, **figures})
    rows.append({"what": "submit to solver start", **solver_starts(bench)})
    rows.append({"what": "event to client", **event_latencies(bench)})
    return rows


def solver_starts(bench: Bench) -> Figures:
    """From before a request is sent until the solver process, forked for it, has the spec."""
    times_s = []
    with bench.client(WITHOUT_KEYS) as client:
        for _ in range(STARTS):
            body = bench.new_problem(STAMPED_LIMIT_S)
            asked_ns = time.time_ns()
            job_id = client.post(ADDRESS, json=body).json()["id"]
            wait_until(client, job_id, "succeeded")
            result = client.get(f"/v1/jobs/{job_id}/result").json()
            times_s.append((result["schedule"]["began_ns"] - asked_ns) / 1e9)
    return {"server": WITHOUT_KEYS, "at_once": 1, **summary(times_s)}


def event_latencies(bench: Bench) -> Figures:
    """From when a step of a job was written until a client that streams its events has it."""
    times_s = []
    with bench.client(WITHOUT_KEYS) as client:
        for _ in range(STREAMS):
            body = bench.new_problem(STAMPED_LIMIT_S)
            path = f"{client.post(ADDRESS, json=body).json()['links']['events']}"
            opened = time.time()
            with client.stream("GET", path) as stream:
                for line in stream.iter_lines():
                    at = _written_at(line)
                    if at is not None and at > opened:
                        times_s.append(time.time() - at)
    return {"server": WITHOUT_KEYS, "at_once": 1, **summary(times_s)}


def _written_at(line: str) -> float | None:
    """The instant of a line that is the data of a step."""
    name, _, value = line.partition(": ")
    data = json.loads(value) if name == "data" else {}
    return datetime.fromisoformat(data["at"]).timestamp() if "at" in data else None
