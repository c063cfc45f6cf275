"""`Idempotency-Key`: the same request under the same key makes nothing new."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select, text
from starlette.testclient import TestClient

from app.database import Database
from app.models import IdempotencyKey, Job
from app.repositories.idempotency import IdempotencyRepository
from app.services.attempts import Attempts
from tests.integration.helpers import ADDRESS, SHARDING_ADDRESS, count_solves, finish

KEY = {"Idempotency-Key": "order 66"}
BATCHES = "/v1/batches"


def count_jobs(database: Database) -> int:
    with database.reading() as session:
        return session.scalars(select(func.count()).select_from(Job)).one()


def test_the_same_request_again_is_about_the_same_job(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    first = client.post(ADDRESS, json={"script": "a", "name": "n"}, headers=KEY)
    assert "Idempotency-Replayed" not in first.headers
    # The order of keys, and how long to wait for the answer, make no other request.
    again = client.post(
        ADDRESS, json={"name": "n", "script": "a"}, headers={**KEY, "Prefer": "wait=0"}
    )
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (202, "true")
    assert again.json() == first.json()
    finish(attempts, database)
    over = client.post(ADDRESS, json={"script": "a", "name": "n"}, headers=KEY)
    assert (over.status_code, over.headers["Idempotency-Replayed"]) == (200, "true")
    assert over.json()["id"] == first.json()["id"]
    assert over.json()["result"]["schedule"]["makespan_ns"] == 7
    assert (count_jobs(database), count_solves(database)) == (1, 1)


def test_a_replay_is_not_resolved_again(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = client.post(ADDRESS, json={"script": "a"}, headers=KEY)
    plans = client.app.state.services.pipeline_schedules  # type: ignore[attr-defined]
    monkeypatch.setattr(plans, "_resolve", lambda body: pytest.fail("was resolved"))
    assert client.post(ADDRESS, json={"script": "a"}, headers=KEY).json() == first.json()


@pytest.mark.parametrize(
    ("address", "body", "headers"),
    [
        (ADDRESS, {"script": "b"}, {}),
        (ADDRESS, {"script": "a", "name": "n"}, {}),
        (SHARDING_ADDRESS, {"script": "a"}, {}),
        (ADDRESS, {"script": "a"}, {"Cache-Control": "no-cache"}),
        (BATCHES, {"requests": [{"kind": "pipeline", "request": {"script": "a"}}]}, {}),
    ],
)
def test_another_request_under_the_same_key_is_a_mistake(
    client: TestClient,
    database: Database,
    address: str,
    body: dict[str, object],
    headers: dict[str, str],
) -> None:
    client.post(ADDRESS, json={"script": "a"}, headers=KEY)
    other = client.post(address, json=body, headers={**KEY, **headers})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    (error,) = other.json()["errors"]
    assert error["path"] == "Idempotency-Key"
    assert error["remedy"]
    assert count_jobs(database) == 1


def test_a_key_is_free_where_nothing_was_made(client: TestClient, database: Database) -> None:
    assert client.post(ADDRESS, json={"wrong": 1}, headers=KEY).status_code == 422
    assert client.post(f"{ADDRESS}?validate_only=true", json={}, headers=KEY).status_code == 200
    assert client.post(ADDRESS, json={"script": "a"}, headers=KEY).status_code == 202
    assert count_jobs(database) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9", "a\tb", "\x7f"])
def test_malformed_keys_are_refused(client: TestClient, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1")}
    for address in (ADDRESS, BATCHES):
        refused = client.post(address, json={}, headers=headers)  # type: ignore[arg-type]
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["path"] == "idempotency-key"


def test_the_longest_key_is_taken(client: TestClient) -> None:
    headers = {"Idempotency-Key": "~" * 255}
    first = client.post(ADDRESS, json={}, headers=headers)
    assert first.status_code == 202
    assert client.post(ADDRESS, json={}, headers=headers).json() == first.json()


def test_of_requests_at_once_one_makes_the_job(client: TestClient, database: Database) -> None:
    def send(_: int) -> tuple[str, bool]:
        answer = client.post(
            ADDRESS, json={"script": "a"}, headers={**KEY, "Cache-Control": "no-cache"}
        )
        assert answer.status_code == 202, answer.text
        return answer.json()["id"], "Idempotency-Replayed" in answer.headers

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(16)))
    assert len({made for made, _ in answers}) == 1
    assert sum(replayed for _, replayed in answers) == 15
    assert (count_jobs(database), count_solves(database)) == (1, 1)


def test_a_key_expires(client: TestClient, database: Database) -> None:
    first = client.post(ADDRESS, json={"script": "a"}, headers=KEY).json()
    with database.writing() as session:
        session.execute(text("UPDATE idempotency_keys SET created_at = created_at - 86400001"))
    second = client.post(ADDRESS, json={"script": "b"}, headers=KEY)
    assert (second.status_code, "Idempotency-Replayed" in second.headers) == (202, False)
    assert second.json()["id"] != first["id"]
    again = client.post(ADDRESS, json={"script": "b"}, headers=KEY)
    assert again.json()["id"] == second.json()["id"]


def test_expired_keys_can_be_forgotten(client: TestClient, database: Database) -> None:
    client.post(ADDRESS, json={"script": "a"}, headers={"Idempotency-Key": "old"})
    with database.writing() as session:
        session.execute(text("UPDATE idempotency_keys SET created_at = created_at - 5000"))
    client.post(ADDRESS, json={"script": "a"}, headers={"Idempotency-Key": "new"})
    with database.writing() as session:
        IdempotencyRepository(session, 4000).forget_expired()
    with database.reading() as session:
        assert session.scalars(select(IdempotencyKey.key)).all() == ["new"]


def test_keys_of_tenants_are_apart(client: TestClient, database: Database) -> None:
    made = client.post(ADDRESS, json={"script": "a"}, headers=KEY).json()["id"]
    with database.writing() as session:
        session.execute(text("UPDATE idempotency_keys SET tenant = 'another'"))
    mine = client.post(ADDRESS, json={"script": "b"}, headers=KEY)
    assert mine.status_code == 202
    assert mine.json()["id"] != made
