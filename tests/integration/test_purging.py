"""Purging a job: what goes with it, and what stays."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select, text
from starlette.testclient import TestClient

from app.database import Database
from app.models import AuditEntry, Base
from app.services.attempts import Attempts, Progress
from app.services.transitions import Answered
from tests.integration.fakes import succeeded
from tests.integration.helpers import claim, finish, job, post

WEBHOOK = {"url": "https://hooks.example/", "secret": "a secret of sixteen or more"}


def purge(client: TestClient, job_id: str) -> Any:
    return client.delete(f"/v1/jobs/{job_id}", params={"purge": "true"})


def rows(database: Database) -> dict[str, int]:
    """How many rows each table has that has some, the audit log apart."""
    with database.reading() as session:
        counts = {
            name: session.scalars(select(func.count()).select_from(table)).one()
            for name, table in Base.metadata.tables.items()
        }
    return {name: number for name, number in counts.items() if number and name != "audit_entries"}


def test_the_last_job_takes_everything_with_it(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    batch = client.post(
        "/v1/batches",
        json={
            "requests": [{"kind": "pipeline", "request": {"tags": ["a", "b"], "webhook": WEBHOOK}}]
        },
        headers={"Idempotency-Key": "k"},
    ).json()
    (row,) = client.get(batch["links"]["self"]).json()["comparison"]
    order = claim(attempts, database)
    attempts.renew(order.fence, Progress(log_lines=["one"], lower_bound=3))
    attempts.end(order.fence, Answered(succeeded()), Progress())
    assert len(rows(database)) >= 7
    answer = purge(client, row["job_id"])
    assert (answer.status_code, answer.content) == (204, b"")
    assert rows(database) == {}
    assert client.get(f"/v1/jobs/{row['job_id']}").status_code == 404
    assert client.get(batch["links"]["self"]).status_code == 404
    assert purge(client, row["job_id"]).status_code == 404


def test_an_equal_request_is_solved_anew(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    finish(attempts, database)
    purge(client, job_id)
    assert post(client)["cache"] == "miss"


def test_a_solve_stays_for_the_other_jobs(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    first, second = post(client)["id"], post(client)["id"]
    finish(attempts, database)
    with database.writing() as session:
        session.execute(text("UPDATE jobs SET tenant = 'another' WHERE id = :id"), {"id": second})
    assert purge(client, second).status_code == 404
    assert purge(client, first).status_code == 204
    assert post(client)["cache"] == "hit"


@pytest.mark.parametrize("state", ["queued", "running", "stopping"])
def test_a_job_that_is_not_over_is_not_purged(
    client: TestClient, database: Database, attempts: Attempts, state: str
) -> None:
    job_id = post(client)["id"]
    if state != "queued":
        claim(attempts, database)
    if state == "stopping":
        client.delete(f"/v1/jobs/{job_id}")
    answer = purge(client, job_id)
    assert (answer.status_code, answer.json()["code"]) == (409, "not_over")
    assert job(client, job_id)["id"] == job_id


def test_a_job_that_left_is_purged_while_its_solve_goes_on(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    leaving, staying = post(client)["id"], post(client)["id"]
    order = claim(attempts, database)
    client.delete(f"/v1/jobs/{leaving}")
    assert purge(client, leaving).status_code == 204
    attempts.end(order.fence, Answered(succeeded()), Progress())
    assert job(client, staying)["state"] == "succeeded"


def test_the_rest_of_a_batch_stays(client: TestClient, database: Database) -> None:
    entries = [{"kind": "pipeline", "request": {"script": script}} for script in "ab"]
    address = client.post("/v1/batches", json={"requests": entries}).json()["links"]["self"]
    first, second = (row["job_id"] for row in client.get(address).json()["comparison"])
    client.delete(address)
    purge(client, first)
    assert [row["job_id"] for row in client.get(address).json()["comparison"]] == [second]


def test_a_purge_is_written_down(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    finish(attempts, database)
    purge(client, job_id)
    with database.reading() as session:
        entries = session.scalars(select(AuditEntry)).all()
    assert [(entry.action, entry.target) for entry in entries] == [("job purged", job_id)]
