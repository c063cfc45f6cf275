"""The stream of all jobs: what it tells, of whose jobs, and what following them costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import fastapi.routing
import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import event, text, update

import app.services.events
import app.services.job_changes
import app.services.keys
import app.services.watches
from app.callers import Scope
from app.database import Database
from app.main import create_app
from app.models import Job
from app.repositories.job_changes import ChangeReader
from app.services.attempts import Attempts, Progress
from app.services.job_changes import JobChanges
from app.services.keys import KeyRing
from app.services.transitions import Answered, GivenBack
from app.settings import Settings
from tests.integration.event_streams import EventStream, all_opened, opened, served
from tests.integration.fakes import START, resolve_fake, succeeded
from tests.integration.helpers import claim, eventually, finish
from tests.integration.keys import bearer, headers_of, new_key

PREFIX = "/tools/loadmaster"
ONE_TENANT = ["default"]


@pytest.fixture
def api(settings: Settings) -> FastAPI:
    return create_app(settings.model_copy(update={"max_streams": 3}), resolve_fake)


@pytest.fixture
def server(api: FastAPI) -> Iterator[httpx.Client]:
    with served(api) as client:
        client.headers["Host"] = "testserver"
        yield client


def begun(server: httpx.Client, script: str = "answer", **more: Any) -> str:
    response = server.post("/v1/pipeline-schedules", json={"script": script, **more})
    assert response.status_code in (200, 202), response.text
    return str(response.json()["id"])


def next_job(stream: EventStream) -> dict[str, Any]:
    found = stream.next()
    assert found is not None
    assert (found.name, found.id) == ("job", None)
    data: dict[str, Any] = found.data
    return data


def test_every_job_is_told_as_it_is_made_and_changes(
    server: httpx.Client, database: Database, attempts: Attempts
) -> None:
    with all_opened(server) as stream:
        assert stream.response.headers["Content-Type"].startswith("text/event-stream")
        assert stream.response.headers["X-Accel-Buffering"] == "no"
        job_id = begun(server, name="mine", tags=["x"])
        made = next_job(stream)
        assert made == {**server.get(f"/v1/jobs/{job_id}").json(), "spent_s": made["spent_s"]}
        assert stream.retry_ms is not None
        order = claim(attempts, database)
        assert next_job(stream)["state"] == "running"
        better = Progress(phase="cbc", incumbent=START, objective=8, lower_bound=6, is_step=True)
        attempts.renew(order.fence, better)
        changed = next_job(stream)
        assert (changed["phase"], changed["best_makespan_ns"]) == ("cbc", 8)
        assert changed["lower_bound_ns"] == 6
        # Neither a heartbeat nor a line of the log changes a job.
        attempts.renew(order.fence, Progress(spent_ms=500, log_lines=["a line"]))
        time.sleep(0.7)
        attempts.end(order.fence, Answered(succeeded()), Progress(spent_ms=600))
        over = next_job(stream)
        assert (over["id"], over["state"], over["tags"]) == (job_id, "succeeded", ["x"])
        # A job that is over from the beginning.
        hit = begun(server)
        told = next_job(stream)
        assert (told["id"], told["state"], told["cache"]) == (hit, "succeeded", "hit")


def test_going_back_to_the_queue_and_leaving_are_changes(
    server: httpx.Client, database: Database, attempts: Attempts
) -> None:
    with all_opened(server) as stream:
        first = begun(server)
        next_job(stream)
        second = begun(server)
        assert next_job(stream)["id"] == second
        server.delete(f"/v1/jobs/{second}")
        left = next_job(stream)
        assert (left["id"], left["state"]) == (second, "cancelled")
        order = claim(attempts, database)
        assert (told := next_job(stream))["state"] == "running"
        assert told["id"] == first
        attempts.end(order.fence, GivenBack(), Progress(spent_ms=100))
        assert next_job(stream)["state"] == "queued"
        server.delete(f"/v1/jobs/{first}")
        assert next_job(stream)["state"] == "cancelled"


def test_nothing_is_lost_between_a_listing_and_its_stream(
    api: FastAPI, server: httpx.Client, database: Database, attempts: Attempts
) -> None:
    """What runs, and what was made or ended a moment ago, is told at the beginning."""
    ended = begun(server, "ended")
    finish(attempts, database)
    running = begun(server, "running")
    claim(attempts, database)
    made = begun(server, "made")
    for _ in range(2):
        # A second stream begins like the first.
        with all_opened(server) as one, all_opened(server) as two:
            for stream in (one, two):
                states = {job["id"]: job["state"] for job in (next_job(stream) for _ in range(3))}
                assert states == {ended: "succeeded", running: "running", made: "queued"}
        eventually(lambda: api.state.services.follower.streams == 0)


def test_what_is_over_or_waits_for_long_is_not_replayed(
    server: httpx.Client,
    database: Database,
    attempts: Attempts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(app.services.job_changes, "WINDOW_S", 0.5)
    begun(server, "over")
    finish(attempts, database)
    begun(server, "waiting")
    time.sleep(0.7)
    with all_opened(server) as stream:
        time.sleep(1.2)
        fresh = begun(server, "fresh")
        assert next_job(stream)["id"] == fresh


def test_what_happened_while_the_database_was_away_is_told(
    server: httpx.Client,
    database: Database,
    attempts: Attempts,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(app.services.job_changes, "WINDOW_S", 0.2)
    marks = ChangeReader.marks
    is_away = True

    def failing(*arguments: Any) -> Any:
        if is_away:
            raise ZeroDivisionError
        return marks(*arguments)

    with all_opened(server) as stream:
        first = begun(server)
        assert next_job(stream)["id"] == first
        monkeypatch.setattr(ChangeReader, "marks", failing)
        eventually(lambda: "ZeroDivisionError" in caplog.text)
        finish(attempts, database)
        time.sleep(1)
        is_away = False
        assert next_job(stream)["state"] == "succeeded"


def test_links_have_the_prefix_of_a_proxy(settings: Settings) -> None:
    below = create_app(settings.model_copy(update={"root_path": PREFIX}), resolve_fake)
    with served(below) as server:
        server.headers["Host"] = "testserver"
        with all_opened(server) as stream:
            job_id = begun(server)
            assert next_job(stream)["links"]["self"] == f"{PREFIX}/v1/jobs/{job_id}"


def test_streams_of_all_and_of_one_job_share_the_limit(api: FastAPI, server: httpx.Client) -> None:
    job_id = begun(server)
    with (
        all_opened(server) as one,
        all_opened(server) as two,
        opened(server, job_id) as three,
    ):
        for stream in (one, two):
            next_job(stream)
        three.until("state")
        for path in ("/v1/events", f"/v1/jobs/{job_id}/events"):
            refused = server.get(path)
            assert (refused.status_code, refused.json()["code"]) == (503, "too_many_streams")
            assert int(refused.headers["Retry-After"]) > 0
    follower = api.state.services.follower
    eventually(lambda: follower.streams == 0)
    eventually(lambda: follower._polling is None)


def test_a_quiet_stream_has_heartbeats_and_ends_after_a_while(
    server: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fastapi.routing, "_PING_INTERVAL", 0.2)
    monkeypatch.setattr(app.services.events, "LONGEST_STREAM_S", 1.5)
    with all_opened(server) as stream:
        (last,) = stream.rest()
    assert (last.name, last.id) == ("reconnect", None)
    assert last.data == {"reason": "the stream has lasted long enough"}
    assert stream.comments.count("ping") > 1


def test_who_reads_too_slowly_is_asked_to_come_again(
    server: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.services.watches, "MOST_UNTOLD", 2)
    for number in range(3):
        begun(server, f"{number}")
    with all_opened(server) as stream:
        (last,) = stream.rest()
    assert last.data == {"reason": "the changes were read too slowly"}


def test_it_ends_when_the_service_does(api: FastAPI, server: httpx.Client) -> None:
    with all_opened(server) as stream:
        begun(server)
        next_job(stream)
        api.state.services.follower.close()
        (last,) = stream.rest()
    assert last.data == {"reason": "the service ends"}
    assert server.get("/v1/events").status_code == 503


def test_only_the_tenants_own_jobs_are_told(
    keyed_settings: Settings, database: Database, attempts: Attempts
) -> None:
    ann, bob = headers_of(database, tenant="ann"), headers_of(database, tenant="bob")
    with served(create_app(keyed_settings, resolve_fake)) as server:
        with all_opened(server, ann) as anns, all_opened(server, bob) as bobs:
            for who, stream in ((bob, bobs), (ann, anns)):
                body = {"script": "shared", "name": "own"}
                made = server.post("/v1/pipeline-schedules", json=body, headers=who).json()
                told = next_job(stream)
                assert told["id"] == made["id"]
            # One solve, which is Bob's, and a job of each.
            finish(attempts, database)
            ends = [next_job(anns), next_job(bobs)]
            assert [end["state"] for end in ends] == ["succeeded", "succeeded"]
            assert ends[0]["id"] == made["id"]
            assert ends[0]["id"] != ends[1]["id"]
        assert server.get("/v1/events").status_code == 401
        submit = headers_of(database, Scope.SUBMIT)
        assert server.get("/v1/events", headers=submit).status_code == 403


@pytest.mark.parametrize("ending", ["revoked", "expired"])
def test_it_ends_when_its_key_no_longer_holds(
    keyed_settings: Settings,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
) -> None:
    monkeypatch.setattr(app.services.events, "LOOK_AT_KEY_EVERY_S", 0.1)
    monkeypatch.setattr(app.services.keys, "KNOWN_FOR_S", 0.2)
    key = new_key(database, lifetime_s=8 if ending == "expired" else None)
    with (
        served(create_app(keyed_settings, resolve_fake)) as server,
        all_opened(server, bearer(key)) as stream,
    ):
        assert stream.response.status_code == 200
        if ending == "revoked":
            KeyRing(database).revoke("a test", key.id)
        (last,) = stream.rest()
        assert last.data == {"reason": "the key is no longer valid"}
        assert server.get("/v1/events", headers=bearer(key)).status_code == 401


def test_one_query_looks_for_all_streams_of_all_tenants(
    keyed_settings: Settings, database: Database
) -> None:
    api = create_app(keyed_settings, resolve_fake)
    asked: list[str] = []
    engine = api.state.services.database.engine
    with served(api) as server:
        tenants = [headers_of(database, tenant=name) for name in ("ann", "bob")]
        with (
            all_opened(server, tenants[0]) as one,
            all_opened(server, tenants[0]) as two,
            all_opened(server, tenants[1]) as three,
        ):
            for who, streams in ((tenants[0], (one, two)), (tenants[1], (three,))):
                for number in range(3):
                    body = {"script": f"{number}"}
                    server.post("/v1/pipeline-schedules", json=body, headers=who)
                for stream in streams:
                    for _ in range(3):
                        next_job(stream)
            looks = api.state.services.follower._changes
            look, count = looks.look, 0

            def counting(*arguments: Any) -> Any:
                nonlocal count
                count += 1
                return look(*arguments)

            looks.look = counting
            event.listen(engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
            eventually(lambda: count >= 3)
            queries = [statement for statement in asked if "UNION" in statement]
            # Those of a job as it is shown.
            others = [each for each in asked if "heartbeat_at" in each]
    assert count - 1 <= len(queries) <= count + 1
    assert others == []


def test_what_a_look_costs_does_not_depend_on_how_many_jobs_there_were(
    server: httpx.Client, database: Database, attempts: Attempts
) -> None:
    """No plan reads through all jobs or solves; and what is over is not read."""
    begun(server, "over")
    finish(attempts, database)
    with database.writing() as session:
        session.execute(text("UPDATE solves SET finished_at = 1"))
        session.execute(update(Job).values(created_at=1))
    assert JobChanges(database).look([], ONE_TENANT).rows == {}
    if database.engine.name != "sqlite":
        return
    steps: list[str] = []

    def explain(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "UNION" in statement and not statement.startswith("EXPLAIN"):
            own = connection.connection.cursor()
            plan = own.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            steps.extend(row[3] for row in plan)

    event.listen(database.engine, "before_cursor_execute", explain)
    JobChanges(database).look([], ONE_TENANT)
    scans = [step for step in steps if step.startswith("SCAN") and "CONSTANT" not in step]
    assert steps
    assert not any(table in step for step in scans for table in ("jobs", "solves")), steps
    by_tenant = [step for step in steps if "tenant=?" in step]
    assert all("created_at>?" in step or "cancelled_at>?" in step for step in by_tenant), steps
