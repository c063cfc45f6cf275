"""Streams of a job's events: what they tell, how they go on, and how they end."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fastapi.routing
import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import app.services.events
import app.services.keys
from app.callers import Scope
from app.database import Database
from app.main import create_app
from app.models import SolveEvent, SolveLogLine
from app.repositories.job_rows import JobReader
from app.services.attempts import Attempts, Progress
from app.services.following import most_of_a_tenant
from app.services.keys import KeyRing
from app.services.transitions import Answered, GivenBack
from app.settings import Settings
from tests.integration.event_streams import Event, opened, served
from tests.integration.fakes import START, resolve_fake, succeeded
from tests.integration.helpers import (
    claim,
    eventually,
    finish,
    newest_solve_id,
    post,
    set_columns,
)
from tests.integration.keys import bearer, headers_of, new_key
from tests.integration.topology import free_port


@pytest.fixture
def api(settings: Settings) -> FastAPI:
    return create_app(settings.model_copy(update={"max_streams": 3}), resolve_fake)


@pytest.fixture
def server(api: FastAPI) -> Iterator[httpx.Client]:
    with served(api) as client:
        client.headers["Host"] = "testserver"
        yield client


def begun(server: httpx.Client, script: str = "answer") -> str:
    response = server.post("/v1/pipeline-schedules", json={"script": script})
    assert response.status_code == 202, response.text
    return str(response.json()["id"])


def names(events: list[Event]) -> list[str]:
    return [event.name for event in events]


def test_a_job_is_followed_to_its_end(
    server: httpx.Client, database: Database, attempts: Attempts
) -> None:
    job_id = begun(server)
    with opened(server, job_id, query="?log=true") as stream:
        assert stream.response.status_code == 200
        assert stream.response.headers["Content-Type"].startswith("text/event-stream")
        assert stream.response.headers["X-Accel-Buffering"] == "no"
        first = stream.until("state")[-1]
        assert stream.retry_ms is not None
        assert (first.data["id"], first.data["state"]) == (job_id, "queued")
        order = claim(attempts, database)
        assert stream.until("state")[-1].data["state"] == "running"
        attempts.renew(
            order.fence,
            Progress(
                spent_ms=1500,
                phase="cbc",
                incumbent=START,
                objective=8,
                lower_bound=6,
                log_lines=["one", "two"],
                is_step=True,
            ),
        )
        events = stream.until("state")
        step = next(event for event in reversed(events) if event.name == "progress").data
        assert (step["phase"], step["spent_s"], step["attempt"]) == ("cbc", 1.5, 1)
        assert (step["best_makespan_ns"], step["lower_bound_ns"], step["gap"]) == (8, 6, 0.25)
        assert step["best_objective_bytes"] is None
        log = next(event for event in events if event.name == "log").data
        assert log == {"offset": 0, "lines": ["one", "two"], "next_offset": 2}
        assert events[-1].data["best_makespan_ns"] == 8
        attempts.end(order.fence, Answered(succeeded()), Progress(log_lines=["three"]))
        last = stream.rest()
    assert names(last)[-2:] == ["state", "end"]
    assert last[-2].data["state"] == "succeeded"
    assert last[-1].data == {"state": "succeeded", "links": last[-2].data["links"]}
    assert [event.data["lines"] for event in last if event.name == "log"] == [["three"]]
    steps = [event.data for event in last if event.name == "progress"]
    assert steps[-1]["state"] == "succeeded"
    assert steps[-1]["gap"] == 0.0


def test_a_heartbeat_alone_is_no_news(
    server: httpx.Client, database: Database, attempts: Attempts
) -> None:
    job_id = begun(server)
    order = claim(attempts, database)
    with opened(server, job_id) as stream:
        stream.until("state")
        for spent_ms in (500, 1000):
            attempts.renew(order.fence, Progress(spent_ms=spent_ms))
            time.sleep(0.7)
        attempts.end(order.fence, Answered(succeeded()), Progress(log_lines=["a line"]))
        assert names(stream.rest()) == ["progress", "state", "end"]


@pytest.mark.parametrize("query", ["", "?log=true"])
def test_a_stream_goes_on_where_another_was_cut_off(
    server: httpx.Client, database: Database, attempts: Attempts, query: str
) -> None:
    job_id = begun(server)
    order = claim(attempts, database)
    for n in range(3):
        lines = [f"line {n}"]
        progress = Progress(
            incumbent=START, objective=20 - n, lower_bound=n, log_lines=lines, is_step=True
        )
        attempts.renew(order.fence, progress)
    with opened(server, job_id, query=query) as stream:
        whole = stream.until("state")
        attempts.end(order.fence, Answered(succeeded()), Progress(log_lines=["the end"]))
        whole += stream.rest()
    # Cut off after any event, the rest follows, each event once.
    for cut, event in enumerate(whole[:-1], start=1):
        with opened(server, job_id, query=query, last_event_id=event.id) as stream:
            rest = stream.rest()
        assert _told(whole[:cut] + rest) == _told(whole)
        assert all(entry.name != "reconnect" for entry in rest)
    with opened(server, job_id, query=query, last_event_id=whole[-1].id) as stream:
        assert stream.response.status_code == 410


def _told(events: list[Event]) -> list[Any]:
    """Steps and log lines one by one, and the last state."""
    steps = [event.data["seq"] for event in events if event.name == "progress"]
    logs = [event.data["lines"] for event in events if event.name == "log"]
    states = [event.data for event in events if event.name == "state"]
    last = {**states[-1], "heartbeat_age_s": None}
    return [steps, list(itertools.chain.from_iterable(logs)), last, events[-1].name]


def test_more_than_one_page_is_told_in_order(
    server: httpx.Client,
    database: Database,
    attempts: Attempts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app.services.events, "MOST_STEPS", 2)
    monkeypatch.setattr(app.services.events, "MOST_LINES", 3)
    job_id = begun(server)
    order = claim(attempts, database)
    for n in range(5):
        progress = Progress(
            incumbent=START, objective=20 - n, log_lines=[f"{n}", f"{n}'"], is_step=True
        )
        attempts.renew(order.fence, progress)
    with opened(server, job_id, query="?log=true") as stream:
        events = stream.until("state")
    steps = [event.data["seq"] for event in events if event.name == "progress"]
    assert steps == list(range(len(steps)))
    assert len(steps) > 4
    lines = [line for event in events if event.name == "log" for line in event.data["lines"]]
    assert lines == [text for n in range(5) for text in (f"{n}", f"{n}'")]


def test_a_job_that_is_over_has_no_stream(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    finish(attempts, database)
    response = client.get(f"/v1/jobs/{job_id}/events")
    assert (response.status_code, response.json()["code"]) == (410, "job_over")
    assert f"/v1/jobs/{job_id}/result" in response.json()["detail"]
    unknown = client.get("/v1/jobs/00000000-0000-0000-0000-000000000000/events")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "job_not_found")


@pytest.mark.parametrize("last_event_id", ["one", "1-2", "1-2-END", "-1-0-", "1-2-zz"])
def test_a_foreign_event_id_is_refused(client: TestClient, last_event_id: str) -> None:
    job_id = post(client)["id"]
    response = client.get(f"/v1/jobs/{job_id}/events", headers={"Last-Event-ID": last_event_id})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")
    assert response.json()["errors"][0]["path"] == "Last-Event-ID"


def test_cancelling_one_of_two_jobs_ends_its_stream_only(
    server: httpx.Client, database: Database, attempts: Attempts
) -> None:
    job_id, other = begun(server), begun(server)
    order = claim(attempts, database)
    with opened(server, job_id) as stream, opened(server, other) as other_stream:
        stream.until("state")
        other_stream.until("state")
        server.delete(f"/v1/jobs/{job_id}")
        last = stream.rest()
        assert (last[-2].data["state"], last[-1].name) == ("cancelled", "end")
        time.sleep(0.05)
        attempts.renew(
            order.fence, Progress(incumbent=START, objective=8, lower_bound=1, is_step=True)
        )
        assert other_stream.until("progress")[-1].data["best_makespan_ns"] == 8
    # What the solve does for others afterwards is no more of its business.
    steps = server.get(f"/v1/jobs/{job_id}/progress").json()
    assert steps["over"]
    assert all(step["best_makespan_ns"] is None for step in steps["steps"])


def test_streams_are_limited_and_free_their_place(api: FastAPI, server: httpx.Client) -> None:
    follower = api.state.services.follower
    job_id = begun(server)
    with opened(server, job_id) as one, opened(server, job_id) as two:
        one.until("state")
        two.until("state")
        with opened(server, begun(server, "another")) as three:
            three.until("state")
            assert follower.streams == 3
            refused = server.get(f"/v1/jobs/{job_id}/events")
            assert (refused.status_code, refused.json()["code"]) == (503, "too_many_streams")
            assert int(refused.headers["Retry-After"]) > 0
    # A client that goes away says nothing: the server notices that the connection is closed.
    eventually(lambda: follower.streams == 0)
    eventually(lambda: follower._polling is None)
    with opened(server, job_id) as stream:
        assert stream.until("state")


def test_waiting_streams_hold_no_connection_and_no_thread(
    api: FastAPI, server: httpx.Client, database: Database, attempts: Attempts
) -> None:
    job_id = begun(server)
    pool: Any = api.state.services.database.engine.pool
    with opened(server, job_id) as one, opened(server, job_id) as two:
        one.until("state")
        two.until("state")
        assert eventually(lambda: pool.checkedout() == 0) is True
        finish(attempts, database)
        assert (names(one.rest())[-1], names(two.rest())[-1]) == ("end", "end")


def test_a_stream_ends_after_a_while_and_asks_to_come_again(
    server: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.services.events, "LONGEST_STREAM_S", 0.5)
    job_id = begun(server)
    with opened(server, job_id) as stream:
        events = stream.rest()
    assert names(events) == ["progress", "state", "reconnect"] or names(events) == [
        "state",
        "reconnect",
    ]
    assert events[-1].data == {"reason": "the stream has lasted long enough"}
    assert events[-1].id == events[-2].id
    with opened(server, job_id, last_event_id=events[-1].id) as stream:
        assert names(stream.rest()) == ["reconnect"]


def test_a_quiet_stream_has_heartbeats(
    server: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastapi.routing, "_PING_INTERVAL", 0.2)
    monkeypatch.setattr(app.services.events, "LONGEST_STREAM_S", 1.5)
    with opened(server, begun(server)) as stream:
        stream.rest()
        assert stream.comments.count("ping") > 1


def test_a_solve_that_goes_back_to_the_queue_says_why(
    server: httpx.Client, database: Database, attempts: Attempts
) -> None:
    job_id = begun(server)
    attempts.end(claim(attempts, database).fence, GivenBack(), Progress(spent_ms=100))
    steps = server.get(f"/v1/jobs/{job_id}/progress").json()["steps"]
    assert [step["state"] for step in steps][-2:] == ["running", "queued"]
    assert steps[-1]["detail"]


def test_progress_is_read_from_an_offset(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    finish(attempts, database)
    page = client.get(f"/v1/jobs/{job_id}/progress").json()
    steps = page["steps"]
    assert page["over"]
    assert page["next_offset"] == len(steps)
    assert [step["seq"] for step in steps] == list(range(len(steps)))
    assert steps[-1]["best_makespan_ns"] == 7
    rest = client.get(f"/v1/jobs/{job_id}/progress?offset={len(steps) - 1}").json()
    assert rest["steps"] == steps[-1:]
    none = client.get(f"/v1/jobs/{job_id}/progress?offset={len(steps)}").json()
    assert (none["steps"], none["next_offset"], none["over"]) == ([], len(steps), True)


def test_what_another_tenants_solve_did_before_is_not_told(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    order = claim(attempts, database)
    attempts.renew(order.fence, Progress(spent_ms=90_000, log_lines=["early"]))
    with database.writing() as session:
        session.query(SolveEvent).update({"at": 1})
        session.query(SolveLogLine).update({"at": 1})
    set_columns(database, tenant="somebody-else")
    attempts.renew(
        order.fence, Progress(phase="cbc", spent_ms=90_000, log_lines=["late"], is_step=True)
    )
    assert client.get(f"/v1/jobs/{job_id}/log").json()["lines"] == ["late"]
    steps = client.get(f"/v1/jobs/{job_id}/progress").json()["steps"]
    assert [step["phase"] for step in steps] == ["cbc"]
    assert steps[0]["spent_s"] < 60
    assert client.get(f"/v1/jobs/{job_id}").json()["spent_s"] < 60


def test_a_database_that_is_away_for_a_moment_ends_no_stream(
    api: FastAPI,
    server: httpx.Client,
    database: Database,
    attempts: Attempts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sqlalchemy.exc import OperationalError

    monkeypatch.setattr(app.services.events, "UNREACHABLE_PAUSE_S", 0.1)
    job_id = begun(server)
    events = api.state.services.events
    since, failures = events.since, itertools.count()

    def failing(*arguments: Any, **more: Any) -> Any:
        if next(failures) < 3:
            raise OperationalError("SELECT 1", {}, Exception("away"))
        return since(*arguments, **more)

    with opened(server, job_id) as stream:
        stream.until("state")
        monkeypatch.setattr(events, "since", failing)
        finish(attempts, database)
        assert names(stream.rest())[-1] == "end"
    assert next(failures) > 3


def test_a_fault_of_the_query_for_all_streams_ends_none(
    server: httpx.Client,
    database: Database,
    attempts: Attempts,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    job_id = begun(server)
    marks, failures = JobReader.marks, itertools.count()

    def failing(*arguments: Any) -> Any:
        if next(failures) < 1:
            raise ZeroDivisionError
        return marks(*arguments)

    with opened(server, job_id) as stream:
        stream.until("state")
        monkeypatch.setattr(JobReader, "marks", failing)
        eventually(lambda: "ZeroDivisionError" in caplog.text)
        finish(attempts, database)
        assert names(stream.rest())[-1] == "end"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_streams_and_waits_end_when_the_service_does(
    settings: Settings, tmp_path: Path, number: signal.Signals
) -> None:
    """As its own process: only there do signals arrive."""
    port = free_port()
    environment = {
        **os.environ,
        "LOADMASTER_DATABASE_URL": settings.database_url,
        "LOADMASTER_DATA_DIR": str(tmp_path),
        "LOADMASTER_AUTHENTICATION": "off",
    }
    command = [sys.executable, "-m", "uvicorn", "--factory", "app.main:create_app"]
    patience = ["--timeout-graceful-shutdown", "60", "--port", str(port)]
    log = tmp_path / "api.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, *patience], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        with (
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
            ThreadPoolExecutor(1) as pool,
        ):
            eventually(lambda: _answers(client), within_s=60)
            body = {"problem": {"micro_batches": 1, "devices": [{}], "stages": STAGES}}
            job_id = client.post("/v1/pipeline-schedules", json=body).json()["id"]
            with opened(client, job_id) as stream:
                stream.until("state")
                job = f"/v1/jobs/{job_id}"
                waiting = pool.submit(client.get, job, headers={"Prefer": "wait=50"})
                time.sleep(0.5)
                process.send_signal(number)
                last = stream.rest()
            assert waiting.result().json()["state"] == "queued"
        assert (last[-1].name, last[-1].data["reason"]) == ("reconnect", "the service ends")
        assert process.wait(30) in (0, -number, 128 + number)
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()


STAGES = [{"device": 0, "forward_ns": 3, "backward_input_ns": 4}]


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def test_only_whoever_may_read_a_job_may_follow_it(
    keyed_client: TestClient, database: Database
) -> None:
    submit = headers_of(database, Scope.SUBMIT)
    job_id = keyed_client.post("/v1/pipeline-schedules", json={}, headers=submit).json()["id"]
    address = f"/v1/jobs/{job_id}/events"
    assert keyed_client.get(address).status_code == 401
    assert keyed_client.get(address, headers=submit).status_code == 403
    foreign = headers_of(database, Scope.READ, tenant="another")
    assert keyed_client.get(address, headers=foreign).status_code == 404
    assert newest_solve_id(database)


@pytest.mark.parametrize("ending", ["revoked", "expired"])
def test_a_stream_ends_when_its_key_no_longer_holds(
    keyed_settings: Settings,
    database: Database,
    attempts: Attempts,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
) -> None:
    monkeypatch.setattr(app.services.events, "LOOK_AT_KEY_EVERY_S", 0.1)
    monkeypatch.setattr(app.services.keys, "KNOWN_FOR_S", 0.2)
    good = new_key(database)
    key = new_key(database, lifetime_s=8 if ending == "expired" else None)
    with served(create_app(keyed_settings, resolve_fake)) as server:
        server.headers.update(bearer(good))
        job_id = begun(server)
        with (
            opened(server, job_id) as staying,
            opened(server, job_id, headers=bearer(key)) as stream,
        ):
            staying.until("state")
            stream.until("state")
            if ending == "revoked":
                KeyRing(database).revoke("a test", key.id)
            last = stream.rest()
            assert (last[-1].name, last[-1].data) == (
                "reconnect",
                {"reason": "the key is no longer valid"},
            )
            again = server.get(f"/v1/jobs/{job_id}/events", headers=bearer(key))
            assert again.status_code == 401
            finish(attempts, database)
            assert names(staying.rest())[-1] == "end"


def test_a_tenant_has_a_share_of_the_streams(keyed_settings: Settings, database: Database) -> None:
    api = create_app(keyed_settings.model_copy(update={"max_streams": 4}), resolve_fake)
    busy, calm = headers_of(database, tenant="busy"), headers_of(database, tenant="calm")
    with served(api) as server:
        server.headers.update(busy)
        of_busy = begun(server)
        server.headers.update(calm)
        of_calm = begun(server)
        address = f"/v1/jobs/{of_busy}/events"
        with (
            opened(server, of_busy, headers=busy) as one,
            opened(server, of_busy, headers=busy) as two,
        ):
            one.until("state")
            two.until("state")
            refused = server.get(address, headers=busy)
            assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
            assert int(refused.headers["Retry-After"]) > 0
            with opened(server, of_calm, headers=calm) as stream:
                assert stream.until("state")
        eventually(lambda: api.state.services.follower.streams == 0)
        with opened(server, of_busy, headers=busy) as stream:
            assert stream.until("state")


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({}, 3),
        ({"max_streams_per_tenant": 5}, 5),
        ({"max_streams_per_tenant": 0}, 0),
        ({"authentication": "off"}, 6),
    ],
)
def test_the_share_of_a_tenant(changes: dict[str, Any], most: int) -> None:
    assert most_of_a_tenant(Settings(max_streams=6).model_copy(update=changes)) == most


def test_one_query_looks_at_all_followed_jobs(
    api: FastAPI, server: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = api.state.services.follower
    looks: list[tuple[str, ...]] = []
    read = follower._read

    def counting(job_ids: tuple[str, ...]) -> Any:
        looks.append(job_ids)
        return read(job_ids)

    monkeypatch.setattr(follower, "_read", counting)
    job_id, other = begun(server), begun(server, "another")
    with (
        opened(server, job_id) as one,
        opened(server, job_id) as two,
        opened(server, other) as more,
    ):
        for stream in (one, two, more):
            stream.until("state")
        looks.clear()
        eventually(lambda: len(looks) >= 2)
    assert {tuple(sorted(look)) for look in looks[:2]} == {tuple(sorted((job_id, other)))}
