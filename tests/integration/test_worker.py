"""The real thing: Celery workers on a real broker, killed and stopped in mid-solve."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.database import Database
from app.main import create_app
from app.settings import Settings
from tests.integration.conftest import DATABASES, WITHOUT_KEYS, database_without_rows, start_broker
from tests.integration.fakes import FAKE_SOLVER, resolve_fake
from tests.integration.helpers import eventually, job, only_solve, post
from tests.integration.processes import marked_processes, new_marker
from tests.integration.worker_processes import Worker, worker_starter

StartWorker = Callable[..., Worker]
WORK = {"do": "work", "seconds": 2}
LONG_WORK = {"do": "work", "seconds": 300}


@pytest.fixture
def marker() -> str:
    return new_marker()


@pytest.fixture
def kind() -> str:
    """Which database a test runs on, unless it asks for both."""
    return "sqlite"


on_both_databases = pytest.mark.parametrize("kind", DATABASES)


class Broker:
    """A broker that may be killed and started again; it remembers nothing."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.start()

    def start(self) -> None:
        self._process, self.url = start_broker(self._socket)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def broker(short_dir: Path, marker: str) -> Iterator[Broker]:
    broker = Broker(short_dir / f"{marker[-8:]}.sock")
    yield broker
    broker.kill()


@pytest.fixture
def settings(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path, broker: Broker, marker: str
) -> Settings:
    """A whole service: database, broker and short patience."""
    return Settings(
        data_dir=tmp_path,
        database_url=database_without_rows(request, kind, tmp_path),
        broker_url=broker.url,
        solver_command=(sys.executable, str(FAKE_SOLVER), marker),
        lease_s=2,
        heartbeat_s=0.5,
        sweep_s=0.3,
        **WITHOUT_KEYS,
    )


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    with TestClient(create_app(settings, resolve_fake)) as client:
        yield client


@pytest.fixture
def start_worker(settings: Settings, tmp_path: Path, marker: str) -> Iterator[StartWorker]:
    """Starts Celery workers, which are gone after the test, like every solver of theirs."""
    numbers = count()
    with worker_starter(tmp_path / "worker.log") as start:

        def start_named(own: Settings = settings) -> Worker:
            return start(
                *("--loglevel", "INFO", "--concurrency", "2"),
                *("--hostname", f"{marker}-{next(numbers)}"),
                *("--without-gossip", "--without-mingle"),
                environment={**environment_of(own), "TMPDIR": str(tmp_path)},
            )

        yield start_named
    eventually(lambda: not marked_processes(marker), 5)


def environment_of(settings: Settings) -> dict[str, str]:
    """The settings as a worker process reads them."""
    chosen = settings.model_dump(mode="json", exclude_unset=True)
    return {
        f"LOADMASTER_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in chosen.items()
    }


def marked_by_part(marker: str) -> tuple[list[int], list[int]]:
    """Processes of solver servers, and of solvers: the fake one, and the one that it starts."""
    python = [pid for pid in marked_processes(marker) if not is_celery(pid)]
    servers = [pid for pid in python if is_celery(parent_of(pid))]
    return servers, [pid for pid in python if pid not in servers]


def is_celery(pid: int) -> bool:
    """Whether it is one of the worker's own processes."""
    try:
        return b"celery" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def parent_of(pid: int) -> int:
    """Its parent; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def solvers(marker: str) -> list[int]:
    """Processes of solvers."""
    return marked_by_part(marker)[1]


def wait_for_state(client: TestClient, job_id: str, *states: str) -> dict[str, Any]:
    """The job once it is in one of these states."""

    def reached() -> dict[str, Any] | None:
        view = job(client, job_id)
        return view if view["state"] in states else None

    view: dict[str, Any] = eventually(reached, 40)
    return view


def wait_for_plan(client: TestClient, job_id: str, attempts: int = 1) -> None:
    """Until the solve runs (again) and its plan is stored."""

    def has_plan() -> bool:
        view = job(client, job_id)
        running = view["state"] == "running" and view["attempts"] >= attempts
        return running and view["best_makespan_ns"] is not None

    eventually(has_plan, 40)


def pool_process(settings: Settings) -> int:
    """The pool process that runs the only solve."""
    database = Database(settings)
    worker = only_solve(database).worker
    database.dispose()
    assert worker is not None
    return int(worker.rpartition(":")[2])


@on_both_databases
def test_a_job_goes_all_the_way(client: TestClient, start_worker: StartWorker) -> None:
    start_worker()
    view = wait_for_state(client, post(client)["id"], "succeeded", "failed")
    assert view["state"] == "succeeded"
    result = client.get(view["links"]["result"]).json()
    assert result["schedule"]["makespan_ns"] == 7
    assert result["provenance"]["attempts"] == 1
    assert post(client)["cache"] == "hit"


@on_both_databases
def test_killing_the_pool_process_in_mid_solve(
    client: TestClient, settings: Settings, start_worker: StartWorker, marker: str
) -> None:
    start_worker()
    job_id = post(client, WORK)["id"]
    wait_for_plan(client, job_id)
    before = solvers(marker)
    assert len(before) == 2
    os.kill(pool_process(settings), signal.SIGKILL)
    eventually(lambda: not set(before) & set(solvers(marker)), 2)
    view = wait_for_state(client, job_id, "succeeded", "failed")
    assert (view["state"], view["attempts"], view["losses"]) == ("succeeded", 2, 1)
    assert (view["crashes"], solvers(marker)) == (0, [])


def test_killing_the_solver_server_in_mid_solve(
    client: TestClient, start_worker: StartWorker, marker: str
) -> None:
    start_worker()
    job_id = post(client, WORK)["id"]
    wait_for_plan(client, job_id)
    (server,), before = marked_by_part(marker)
    os.kill(server, signal.SIGKILL)
    eventually(lambda: not set(before) & set(solvers(marker)), 2)
    view = wait_for_state(client, job_id, "succeeded", "failed")
    assert (view["state"], view["attempts"], view["losses"]) == ("succeeded", 2, 1)
    assert (view["crashes"], solvers(marker)) == (0, [])
    (second,), _ = marked_by_part(marker)
    assert second != server


def test_killing_the_solver_in_mid_solve(
    client: TestClient, start_worker: StartWorker, marker: str
) -> None:
    start_worker()
    job_id = post(client, WORK)["id"]
    wait_for_plan(client, job_id)
    (server,), before = marked_by_part(marker)
    (solver,) = [pid for pid in before if parent_of(pid) == server]
    os.kill(solver, signal.SIGKILL)
    eventually(lambda: not set(before) & set(solvers(marker)), 2)
    view = wait_for_state(client, job_id, "succeeded", "failed")
    assert (view["state"], view["attempts"], view["crashes"]) == ("succeeded", 2, 1)
    assert marked_by_part(marker) == ([server], [])


@on_both_databases
def test_killing_the_whole_worker_in_mid_solve(
    client: TestClient, start_worker: StartWorker, marker: str
) -> None:
    worker = start_worker()
    job_id = post(client, WORK)["id"]
    wait_for_plan(client, job_id)
    worker.kill()
    worker.wait()
    eventually(lambda: not marked_processes(marker), 3)
    start_worker()
    view = wait_for_state(client, job_id, "succeeded", "failed")
    assert (view["state"], view["attempts"], view["losses"]) == ("succeeded", 2, 1)
    log = client.get(view["links"]["log"]).json()["lines"]
    assert "start as_posted" in log, "the second attempt starts from the stored plan"


@pytest.mark.parametrize("whole_group", [False, True])
def test_a_warm_shutdown_gives_solves_back(
    client: TestClient, start_worker: StartWorker, marker: str, whole_group: bool
) -> None:
    worker = start_worker()
    job_id = post(client, LONG_WORK)["id"]
    wait_for_plan(client, job_id)
    began = time.monotonic()
    if whole_group:
        os.killpg(worker.pid, signal.SIGTERM)
    else:
        worker.terminate()
    assert worker.wait(15) is not None
    assert time.monotonic() - began < 8
    assert marked_processes(marker) == []
    view = job(client, job_id)
    assert (view["state"], view["losses"], view["crashes"]) == ("queued", 0, 0)
    assert view["best_makespan_ns"] == 7
    start_worker()
    wait_for_plan(client, job_id, attempts=2)
    client.delete(f"/v1/jobs/{job_id}")
    assert wait_for_state(client, job_id, "cancelled")["cancel_requested"] is False
    assert client.get(f"/v1/jobs/{job_id}/result").status_code == 200


def test_a_broker_that_forgets_everything_delays_but_loses_nothing(
    settings: Settings, start_worker: StartWorker, broker: Broker
) -> None:
    hasty = settings.model_copy(update={"resend_after_s": 1.0})
    with TestClient(create_app(hasty, resolve_fake)) as client:
        ids = [post(client, {"do": "work", "seconds": 0, "n": n})["id"] for n in range(5)]
        time.sleep(1)
        broker.kill()
        broker.start()
        start_worker()
        for job_id in ids:
            assert wait_for_state(client, job_id, "succeeded", "failed")["state"] == "succeeded"


def test_more_urgent_jobs_go_first(client: TestClient, start_worker: StartWorker) -> None:
    plain = [post(client, {"do": "work", "seconds": 0.5, "n": n})["id"] for n in range(6)]
    urgent = post(client, {"do": "work", "seconds": 0.5, "n": 9}, priority=9)["id"]
    eventually(lambda: client.get("/readyz").json()["status"] == "ok")
    time.sleep(1)
    start_worker()
    wait_for_state(client, urgent, "succeeded")
    waiting = [one for one in plain if job(client, one)["state"] == "queued"]
    assert len(waiting) >= 3


def test_long_solves_run_only_where_they_are_taken(
    client: TestClient, settings: Settings, start_worker: StartWorker
) -> None:
    long = post(client, {"do": "work", "seconds": 0, "n": 1}, time_limit_s=1000)["id"]
    short = post(client, {"do": "work", "seconds": 0, "n": 2})["id"]
    start_worker()
    assert wait_for_state(client, short, "succeeded", "failed")["state"] == "succeeded"
    time.sleep(1)
    assert job(client, long)["state"] == "queued"
    start_worker(settings.model_copy(update={"worker_queues": ("long",)}))
    assert wait_for_state(client, long, "succeeded", "failed")["state"] == "succeeded"
    again = post(client, {"do": "work", "seconds": 0, "n": 3})["id"]
    assert wait_for_state(client, again, "succeeded", "failed")["state"] == "succeeded"


def test_a_broker_that_dies_and_comes_back(
    client: TestClient, start_worker: StartWorker, broker: Broker
) -> None:
    start_worker()
    running = post(client, WORK)["id"]
    wait_for_plan(client, running)
    broker.kill()
    queued = post(client, {"do": "work", "seconds": 0})["id"]
    assert wait_for_state(client, running, "succeeded", "failed")["attempts"] == 1
    assert client.get("/readyz").json()["status"] == "degraded"
    broker.start()
    assert wait_for_state(client, queued, "succeeded", "failed")["state"] == "succeeded"
