"""What was posted is kept with its job: told as it was, in short in the job, and gone with it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event, text, update
from starlette.testclient import TestClient

from app.database import Database
from app.main import create_app
from app.models import Job
from app.services.attempts import Attempts
from app.settings import Settings
from tests.integration.fakes import resolve_fake
from tests.integration.helpers import finish, job, post

HOOK = {"url": "https://hooks.example/it", "secret": "a secret of sixteen or more"}


def request_of(client: TestClient, job_id: str) -> Any:
    return client.get(f"/v1/jobs/{job_id}/request")


def test_a_request_is_told_as_it_was_posted_without_its_webhook(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    labels = {"name": "mine", "tags": ["x"], "priority": 7}
    job_id = post(client, "answer", time_limit_s=5, **labels, webhook=HOOK)["id"]
    answer = request_of(client, job_id)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == {"script": "answer", "time_limit_s": 5, **labels}
    assert "secret" not in answer.text
    finish(attempts, database)
    # A job that a stored answer serves has its own.
    hit = post(client, "answer", name="other", time_limit_s=5.0)
    assert hit["cache"] == "hit"
    again = request_of(client, hit["id"]).json()
    assert again == {"name": "other", "script": "answer", "time_limit_s": 5.0}
    # Posted again as it is, it asks for the same.
    assert client.post("/v1/pipeline-schedules", json=again).json()["cache"] == "hit"


def test_the_requests_of_a_batch_have_what_the_batch_says_of_them(client: TestClient) -> None:
    one = {"kind": "pipeline", "name": "first", "request": {"script": "a", "tags": ["own"]}}
    two = {"kind": "sharding", "request": {"script": "b", "name": "own"}}
    batch = {"name": "all", "tags": ["shared"], "priority": 3, "webhook": HOOK}
    made = client.post("/v1/batches", json={**batch, "requests": [one, two]}).json()
    rows = client.get(f"/v1/batches/{made['id']}").json()["comparison"]
    kept = [request_of(client, row["job_id"]).json() for row in rows]
    assert kept == [
        {"script": "a", "name": "first", "tags": ["shared", "own"], "priority": 3},
        {"script": "b", "name": "own", "tags": ["shared"], "priority": 3},
    ]


def test_a_job_says_in_short_what_it_plans(settings: Settings) -> None:
    training = {"micro_batches": 4, "micro_batch_size": 1}
    body = {"model": "gpt-2", "cluster": "4xA100-40GB", "training": training}
    with TestClient(create_app(settings)) as client:
        made = client.post("/v1/pipeline-schedules", json=body)
        assert made.status_code == 202, made.text
        job_id = made.json()["id"]
        assert job(client, job_id)["model"] == "GPT-2"
        assert client.get("/v1/jobs").json()["jobs"][0]["model"] == "GPT-2"
        graph = client.get("/v1/examples?kind=sharding").json()[-1]
        made = client.post("/v1/sharding-plans", json=graph)
        assert job(client, made.json()["id"])["model"]
    with TestClient(create_app(settings, resolve_fake)) as client:
        assert job(client, post(client)["id"])["model"] is None


def test_a_job_of_an_older_version_has_none_and_says_so(
    client: TestClient, database: Database
) -> None:
    job_id = post(client)["id"]
    with database.writing() as session:
        session.execute(update(Job).values(request=None, model=None))
    answer = request_of(client, job_id)
    assert (answer.status_code, answer.json()["code"]) == (404, "request_not_kept")
    assert answer.json()["errors"][0]["remedy"]
    assert job(client, job_id)["model"] is None


def test_it_goes_with_the_job(client: TestClient, database: Database, attempts: Attempts) -> None:
    job_id, other = post(client, name="a secret")["id"], post(client, name="of mine")["id"]
    finish(attempts, database)
    assert client.delete(f"/v1/jobs/{job_id}?purge=true").status_code == 204
    assert request_of(client, job_id).status_code == 404
    assert request_of(client, job_id).json()["code"] == "job_not_found"
    with database.reading() as session:
        (left,) = session.execute(text("SELECT id, request FROM jobs")).all()
    assert (left[0], "a secret" in left[1]) == (other, False)


@pytest.mark.parametrize("path", ["", "/result", "/progress", "/log"])
def test_nothing_but_its_own_address_reads_it(
    client: TestClient, database: Database, attempts: Attempts, path: str
) -> None:
    """It may have megabytes, and a job is polled once a second."""
    job_id = post(client)["id"]
    finish(attempts, database)
    asked: list[str] = []
    engine = client.app.state.services.database.engine  # type: ignore[attr-defined]
    event.listen(engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    for address in ("/v1/jobs", f"/v1/jobs/{job_id}{path}"):
        assert client.get(address).status_code == 200
    hit = post(client, name="hit")
    assert hit["cache"] == "hit"
    reading = [statement for statement in asked if statement.lstrip().startswith("SELECT")]
    assert reading
    assert not any("jobs.request" in statement for statement in reading)
    asked.clear()
    assert request_of(client, job_id).status_code == 200
    assert any("jobs.request" in statement for statement in asked)


def test_it_is_the_last_column(database: Database) -> None:
    """SQLite reads a row up to the column that is asked for."""
    assert list(Job.__table__.columns)[-1].name == "request"
    with database.reading() as session:
        kind = session.get_bind().dialect.name
        if kind == "sqlite":
            columns = [row[1] for row in session.execute(text("PRAGMA table_info(jobs)"))]
            assert columns[-1] == "request"
