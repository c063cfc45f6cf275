"""A worker's log, its metrics, and what it says where it cannot start."""

from __future__ import annotations

import json
import socket
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.observability.process_files import FOLDER_VARIABLE
from app.settings import Settings
from migrations.run import downgrade
from tests.integration.helpers import eventually
from tests.integration.topology import free_port
from tests.integration.worker_processes import Worker, worker_starter

Start = Callable[..., Worker]


@pytest.fixture
def start(
    sqlite_template: Path, sqlite_database_url: str, broker_url: str, tmp_path: Path
) -> Iterator[Start]:
    """Starts a worker whose log is worker.log."""
    own = {
        "LOADMASTER_DATABASE_URL": sqlite_database_url,
        "LOADMASTER_BROKER_URL": broker_url,
        "LOADMASTER_DATA_DIR": str(tmp_path),
    }
    with worker_starter(tmp_path / "worker.log") as start:

        def start_here(**environment: str) -> Worker:
            return start(environment={**own, **environment})

        yield start_here


def log_of(folder: Path) -> str:
    return (folder / "worker.log").read_text()


def test_a_worker_answers_for_its_processes_and_logs_json(start: Start, tmp_path: Path) -> None:
    port = free_port()
    worker = start(
        LOADMASTER_WORKER_METRICS_PORT=str(port), **{FOLDER_VARIABLE: str(tmp_path / "metrics")}
    )

    def metrics() -> str:
        assert worker.poll() is None, log_of(tmp_path)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    shown = eventually(metrics, 60)
    # Another address of this machine, as a network's would be: nobody listens there.
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=5).close()
    slots = [line for line in shown.splitlines() if line.startswith("loadmaster_worker_slots ")]
    assert float(slots[0].split()[1]) >= 1
    # The rows are every API's; a worker would only have them counted twice.
    assert "loadmaster_queue_depth" not in shown
    lines = [line for line in log_of(tmp_path).splitlines() if line.startswith("{")]
    entries = [json.loads(line) for line in lines]
    assert [entry for entry in entries if "ready" in entry["message"]]
    assert {"time", "level", "logger", "message"} <= set(entries[0])


def test_a_worker_that_cannot_add_up_its_counts_does_not_start(
    start: Start, tmp_path: Path
) -> None:
    worker = start(LOADMASTER_WORKER_METRICS_PORT=str(free_port()))
    assert worker.wait(60) != 0
    assert f"LOADMASTER_WORKER_METRICS_PORT needs {FOLDER_VARIABLE}" in log_of(tmp_path)
    assert "Traceback" not in log_of(tmp_path)


def test_a_worker_does_not_start_on_an_older_schema(
    start: Start, tmp_path: Path, sqlite_database_url: str
) -> None:
    downgrade(Settings(database_url=sqlite_database_url), "0004")
    worker = start()
    assert worker.wait(60) != 0
    log = log_of(tmp_path)
    assert "the database's schema is 0004 and has to be" in log
    assert "run `loadmaster db migrate`" in log
    assert "Traceback" not in log
