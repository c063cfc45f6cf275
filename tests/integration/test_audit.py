"""What is written to the audit log, and who reads it."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from app.callers import ALL_SCOPES, Caller
from app.database import Database
from app.services.attempts import Attempts
from app.services.audit import record
from app.services.keys import KeyRing
from app.services.tenants import Tenants
from tests.integration.helpers import ADDRESS, finish
from tests.integration.keys import bearer, headers_of, new_key

AUDIT = "/v1/audit"


def entries(client: TestClient, headers: dict[str, str], query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(AUDIT + query, headers=headers).json()["entries"]
    return found


def post(client: TestClient, script: str, headers: dict[str, str]) -> str:
    answer = client.post(ADDRESS, json={"script": script}, headers=headers)
    job_id: str = answer.json()["id"]
    return job_id


def test_keys_limits_cancels_and_purges_are_written(
    keyed_client: TestClient, database: Database, attempts: Attempts
) -> None:
    key = new_key(database)
    headers = bearer(key)
    spare = new_key(database)
    KeyRing(database).revoke("ada@box", spare.id)
    Tenants(database).change("ada@box", "default", {"max_queued": 5})
    cancelled = post(keyed_client, "cancelled", headers)
    named = {**headers, "X-Request-ID": "request-17"}
    for _ in range(2):
        keyed_client.delete(f"/v1/jobs/{cancelled}", headers=named)
    purged = post(keyed_client, "purged", headers)
    finish(attempts, database)
    assert keyed_client.delete(f"/v1/jobs/{purged}?purge=true", headers=headers).status_code == 204
    found = [(e["actor"], e["action"], e["target"]) for e in entries(keyed_client, headers)]
    assert found == [
        (key.id, "job purged", purged),
        (key.id, "job cancelled", cancelled),
        ("ada@box", "limits changed", "default"),
        ("ada@box", "key revoked", spare.id),
        ("a test", "key created", spare.id),
        ("a test", "key created", key.id),
    ]
    assert entries(keyed_client, headers)[1]["request_id"] == "request-17"
    assert "max_queued = 5" in entries(keyed_client, headers)[2]["detail"]


def test_cancel_that_changes_nothing_is_not_written(
    keyed_client: TestClient, database: Database, attempts: Attempts
) -> None:
    headers = headers_of(database)
    job_id = post(keyed_client, "over", headers)
    finish(attempts, database)
    keyed_client.delete(f"/v1/jobs/{job_id}", headers=headers)
    assert "job cancelled" not in str(entries(keyed_client, headers))


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_have_each_entry_once(
    keyed_client: TestClient, database: Database, limit: int
) -> None:
    headers = headers_of(database)
    caller = Caller("default", "tester", ALL_SCOPES)
    for group in range(4):
        # Those of one transaction often have one instant.
        with database.writing() as session:
            for number in range(3):
                record(session, caller, "thing done", f"{group}-{number}")
    with database.writing() as session:
        record(session, Caller("other", "tester", ALL_SCOPES), "thing done", "not to be seen")
    targets: list[str] = []
    query = f"?limit={limit}"
    while True:
        page = keyed_client.get(AUDIT + query, headers=headers).json()
        targets += [entry["target"] for entry in page["entries"]]
        if page["next_cursor"] is None:
            break
        query = f"?limit={limit}&cursor={page['next_cursor']}"
    assert targets[:-1] == [f"{group}-{n}" for group in (3, 2, 1, 0) for n in (2, 1, 0)]


@pytest.mark.parametrize("cursor", ["x", "MTI", "MTI6eA", "MTI6LTE", "MTI6MDAwMDAwMDAwMDAwMDAw"])
def test_what_is_no_cursor_is_refused(
    keyed_client: TestClient, database: Database, cursor: str
) -> None:
    answer = keyed_client.get(f"{AUDIT}?cursor={cursor}", headers=headers_of(database))
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "cursor")


def test_entry_goes_with_what_it_tells_of(database: Database, keyed_client: TestClient) -> None:
    headers = headers_of(database)

    def fail() -> None:
        with database.writing() as session:
            record(session, Caller("default", "tester", ALL_SCOPES), "thing done")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert "thing done" not in str(entries(keyed_client, headers))
