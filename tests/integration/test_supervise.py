"""A worker's attempt with a real child process, around a fake planner."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import workers.supervise
from app.database import Database
from app.services.attempts import Attempts
from app.settings import Settings
from tests.integration.fakes import FAKE_SOLVER
from tests.integration.helpers import (
    claim,
    eventually,
    job,
    lapse_leases,
    loads,
    only_solve,
    post,
    set_columns,
    solver_keeper,
    supervise,
)
from tests.integration.processes import marked_processes, new_marker
from workers.capacity import Capacity
from workers.supervise import Supervisor


@pytest.fixture
def marker() -> Iterator[str]:
    """Names the child processes of one test, none of which may remain."""
    marker = new_marker()
    yield marker
    eventually(lambda: not marked_processes(marker), 5)


@pytest.fixture
def settings(
    settings: Settings, marker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return settings.model_copy(
        update={
            "solver_command": (sys.executable, str(FAKE_SOLVER), marker),
            "heartbeat_s": 0.3,
            "lease_s": 3,
        }
    )


@pytest.fixture
def solve(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> Callable[..., dict[str, Any]]:
    """Post a script, run it as a worker would, and return the job."""

    def run(script: Any, leave: Callable[[], bool] = lambda: False, **more: Any) -> dict[str, Any]:
        job_id = post(client, script, **more)["id"]
        supervise(claim(attempts, database), attempts, settings, leave)
        return job(client, job_id)

    return run


Solve = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("script", "state"),
    [
        ("answer", "succeeded"),
        ("infeasible", "infeasible"),
        ("no plan", "failed"),
        ({"do": "work", "seconds": 0.3}, "succeeded"),
    ],
)
def test_an_answer_ends_the_solve(solve: Solve, script: Any, state: str) -> None:
    assert solve(script)["state"] == state


def test_what_the_solver_reports_is_stored(
    solve: Solve, client: TestClient, database: Database
) -> None:
    view = solve({"do": "work", "seconds": 0.3})
    assert (view["best_makespan_ns"], view["lower_bound_ns"], view["gap"]) == (7, 7, 0.0)
    log = client.get(view["links"]["log"]).json()["lines"]
    assert log == ["start none", "time left 60.0"]
    assert only_solve(database).spent_ms >= 300
    assert loads(only_solve(database).incumbent)["placement"] == "as_posted"


@pytest.mark.parametrize(("script", "word"), [("raise", "a fault"), ("nonsense", "form")])
def test_a_fault_of_the_planner_fails_at_once(
    solve: Solve, client: TestClient, script: str, word: str
) -> None:
    view = solve(script)
    assert view["state"] == "failed"
    error = client.get(view["links"]["result"]).json()
    assert error["code"] == "internal_error"
    assert word in error["detail"]


def test_a_command_that_cannot_be_started_counts_as_a_crash(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    broken = settings.model_copy(update={"solver_command": ("/nowhere/solver",)})
    job_id = post(client)["id"]
    supervise(claim(attempts, database), attempts, broken)
    view = job(client, job_id)
    assert (view["state"], view["crashes"]) == ("queued", 1)


def test_a_server_that_ends_before_it_can_serve_counts_as_a_crash(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    broken = settings.model_copy(update={"solver_command": (sys.executable, "-c", "exit(3)")})
    job_id = post(client)["id"]
    supervise(claim(attempts, database), attempts, broken)
    view = job(client, job_id)
    assert (view["state"], view["crashes"]) == ("queued", 1)


@pytest.mark.parametrize(
    ("script", "words"), [("segfault", "SIGSEGV"), ("solver crash", "its last words")]
)
def test_a_crash_is_tried_again_and_fails_in_the_end(
    solve: Solve,
    client: TestClient,
    database: Database,
    attempts: Attempts,
    settings: Settings,
    script: str,
    words: str,
) -> None:
    view = solve(script)
    assert (view["state"], view["crashes"]) == ("queued", 1)
    for _ in range(2):
        supervise(claim(attempts, database), attempts, settings)
    response = client.get(view["links"]["result"])
    assert response.json()["code"] == "solver_crashed"
    assert words in response.text


def test_the_second_attempt_starts_from_the_plan_of_the_first(
    solve: Solve, client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    view = solve("crash once")
    assert view["best_makespan_ns"] == 9
    supervise(claim(attempts, database), attempts, settings)
    view = job(client, view["id"])
    assert (view["state"], view["attempts"], view["crashes"]) == ("succeeded", 2, 1)
    assert "start as_posted" in client.get(view["links"]["log"]).json()["lines"]


def test_cancelling_stops_the_solver_and_keeps_its_plan(
    solve: Solve, client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy solver that is killed leaves another certificate: that of its last plan.
    monkeypatch.setattr(workers.supervise, "CANCEL_GRACE_S", 30.0)

    def cancel_once_there_is_a_plan() -> bool:
        jobs = client.get("/v1/jobs?state=running").json()["jobs"]
        if not jobs or jobs[0]["best_makespan_ns"] is None:
            return False
        return client.delete(f"/v1/jobs/{jobs[0]['id']}").is_success

    canceller = threading.Thread(target=lambda: eventually(cancel_once_there_is_a_plan))
    canceller.start()
    view = solve({"do": "work", "seconds": 60})
    canceller.join()
    assert (view["state"], view["cancel_requested"]) == ("cancelled", False)
    result = client.get(view["links"]["result"]).json()
    assert result["certificate"]["proven_optimal"] is False
    assert only_solve(database).spent_ms < 30_000


def test_shutting_down_gives_the_solve_back(solve: Solve, database: Database) -> None:
    leave = threading.Event()
    threading.Timer(1.0, leave.set).start()
    view = solve({"do": "work", "seconds": 60}, leave.is_set)
    assert (view["state"], view["attempts"]) == ("queued", 1)
    solve_row = only_solve(database)
    assert (solve_row.crashes, solve_row.losses) == (0, 0)
    assert solve_row.best_objective == 7


def test_shutting_down_kills_a_solver_that_does_not_stop(
    solve: Solve, database: Database, settings: Settings
) -> None:
    leave = threading.Event()
    threading.Timer(1.0, leave.set).start()
    view = solve("hang", leave.is_set)
    assert (view["state"], only_solve(database).best_objective) == ("queued", 7)


def test_a_solver_past_its_limit_is_killed_and_its_plan_is_the_answer(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    impatient = settings.model_copy(update={"overtime_s": 1.0})
    job_id = post(client, "hang", time_limit_s=1)["id"]
    supervise(claim(attempts, database), attempts, impatient)
    view = job(client, job_id)
    assert (view["state"], view["gap"]) == ("succeeded", 0.0)


def test_a_worker_that_lost_its_lease_stops_its_solver_and_leaves(
    solve: Solve, client: TestClient, database: Database
) -> None:
    def steal() -> bool:
        jobs = client.get("/v1/jobs?state=running").json()["jobs"]
        if jobs:
            set_columns(database, attempt=7)
            lapse_leases(database)
        return bool(jobs)

    thief = threading.Thread(target=lambda: eventually(steal))
    thief.start()
    view = solve({"do": "work", "seconds": 60})
    thief.join()
    # The sweep may have given it back by then.
    assert view["state"] in ("running", "queued")
    assert view["attempts"] == 7


def test_the_solver_dies_when_its_supervisor_is_killed(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings, marker: str
) -> None:
    post(client, {"do": "work", "seconds": 60})
    order = claim(attempts, database)
    with solver_keeper(settings) as keeper:
        pid = os.fork()
        if pid == 0:
            try:
                run = Supervisor(
                    order, NoAttempts(), settings, lambda: False, keeper.orders, CAPACITY
                ).run
                run()
            finally:
                os._exit(0)
        # The server, the solver and the process that it started itself.
        eventually(lambda: len(marked_processes(marker)) == 3)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        eventually(lambda: len(marked_processes(marker)) == 1, 5)


CAPACITY = Capacity(concurrency=1, threads=2, memory_bytes=None)


class NoAttempts(Attempts):
    """For a forked process, which must not use the connections of its parent."""

    def __init__(self) -> None:
        pass

    def renew(self, *_: Any) -> Any:
        return None

    def standing(self, *_: Any) -> Any:
        return None


def test_no_process_of_a_solver_sees_secrets(
    client: TestClient,
    database: Database,
    attempts: Attempts,
    settings: Settings,
    marker: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOADMASTER_DATABASE_URL", "postgresql://user:secret@host/db")
    monkeypatch.setenv("LOADMASTER_WEBHOOK_SECRET", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    post(client, {"do": "work", "seconds": 60})
    leave = threading.Event()
    order = claim(attempts, database)
    with solver_keeper(settings) as keeper:
        supervisor = Supervisor(order, attempts, settings, leave.is_set, keeper.orders, CAPACITY)
        thread = threading.Thread(target=supervisor.run)
        thread.start()
        eventually(lambda: len(marked_processes(marker)) == 3)
        environments = [
            Path(f"/proc/{pid}/environ").read_bytes() for pid in marked_processes(marker)
        ]
        leave.set()
        thread.join()
    assert all(os.environ["PATH"].encode() in environment for environment in environments)
    assert not any(b"secret" in environment for environment in environments)


@pytest.mark.parametrize("mib", [85, 300])
@pytest.mark.parametrize("listen", [True, False])
def test_a_solve_that_holds_too_much_is_stopped_with_its_plan(
    client: TestClient,
    database: Database,
    attempts: Attempts,
    settings: Settings,
    listen: bool,
    mib: int,
) -> None:
    """It and its child hold 85 MiB each, over the limit only together, or far more."""
    job_id = post(client, {"do": "eat", "mib": mib, "plan": True, "listen": listen})["id"]
    supervise(claim(attempts, database), attempts, settings, memory_bytes=175 << 20)
    view = job(client, job_id)
    assert (view["state"], view["attempts"], view["crashes"]) == ("succeeded", 1, 0)
    result = client.get(view["links"]["result"]).json()
    assert result["provenance"]["stopped_by"] == "memory limit"
    assert result["certificate"]["proven_optimal"] is False


def test_a_solve_that_holds_too_much_and_has_no_plan_fails(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    script = {"do": "eat", "mib": 200, "plan": False, "listen": False}
    job_id = post(client, script)["id"]
    supervise(claim(attempts, database), attempts, settings, memory_bytes=175 << 20)
    view = job(client, job_id)
    assert (view["state"], view["crashes"]) == ("failed", 0)
    error = client.get(view["links"]["result"]).json()
    assert error["code"] == "out_of_memory"
    assert "LOADMASTER_SOLVER_MEMORY_BYTES" in error["detail"]
    assert "175 MiB" in error["detail"]


def test_a_solve_within_its_memory_is_left_alone(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    job_id = post(client, {"do": "work", "seconds": 1.5})["id"]
    supervise(claim(attempts, database), attempts, settings, memory_bytes=1 << 30)
    assert job(client, job_id)["state"] == "succeeded"


def test_a_cancelled_solver_that_does_not_answer_is_killed_and_its_plan_kept(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    job_id = post(client, "hang")["id"]

    def cancel_once_there_is_a_plan() -> bool:
        running = job(client, job_id)["best_makespan_ns"] is not None
        return running and client.delete(f"/v1/jobs/{job_id}").is_success

    canceller = threading.Thread(target=lambda: eventually(cancel_once_there_is_a_plan))
    canceller.start()
    supervise(claim(attempts, database), attempts, settings)
    canceller.join()
    assert job(client, job_id)["state"] == "cancelled"
    result = client.get(f"/v1/jobs/{job_id}/result").json()
    assert result["provenance"]["stopped_by"] == "cancelled"


def test_a_solver_gets_the_threads_of_its_worker(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    view = job(client, post(client, "threads")["id"])
    supervise(claim(attempts, database), attempts, settings)
    assert "threads 2 of 64" in client.get(view["links"]["log"]).json()["lines"]


def test_figures_beyond_a_database_end_the_solve_all_the_same(
    solve: Solve, database: Database
) -> None:
    assert solve({"do": "answer", "objective": 1e30})["state"] == "succeeded"
    assert only_solve(database).best_objective == 2**63 - 1
