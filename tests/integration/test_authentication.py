"""With keys: who has none is told so, who has one may do what it allows, and no more."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute
from sqlalchemy import select, update
from starlette.testclient import TestClient

from app.callers import Scope
from app.database import Database
from app.errors import PROBLEM_MEDIA_TYPE
from app.main import create_app
from app.models import ApiKey, AuditEntry
from app.security.keys import Key
from app.security.keys import new_key as unknown_key
from app.services import events as event_service
from app.services import keys as key_service
from app.services.keys import KeyRing
from app.settings import Settings
from tests.integration.conftest import WITHOUT_KEYS
from tests.integration.helpers import ADDRESS, eventually
from tests.integration.keys import bearer, headers_of, new_key

OPEN = {"/healthz", "/readyz"}
BODY = {"script": "answer"}


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request looks its key up."""
    monkeypatch.setattr(key_service, "KNOWN_FOR_S", 0.0)


def status(client: TestClient, headers: dict[str, str], path: str = "/v1/jobs") -> int:
    return client.get(path, headers=headers).status_code


def test_keys_are_the_default() -> None:
    assert Settings.model_fields["authentication"].default == "keys"


def operations(client: TestClient, some_id: str = "0" * 32) -> Iterator[tuple[str, str]]:
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            yield method.upper(), re.sub(r"\{\w+\}", some_id, path)


def test_every_route_but_the_probes_needs_a_key(keyed_client: TestClient) -> None:
    seen = set()
    for method, path in (*operations(keyed_client), *operations(keyed_client, "no-uuid")):
        response = keyed_client.request(method, path)
        if path in OPEN:
            assert response.status_code == 200, path
            continue
        seen.add((method, path))
        assert response.status_code == 401, (method, path)
        assert response.headers["content-type"] == PROBLEM_MEDIA_TYPE
        assert response.headers["www-authenticate"] == 'Bearer realm="loadmaster"'
        assert response.json()["code"] == "not_authenticated"
    assert len(seen) > 15


def test_no_route_hides_from_the_description(keyed_client: TestClient) -> None:
    """Routes that the OpenAPI document leaves out are the probes' HEAD, the document itself and
    the dashboard's files."""
    described = set(keyed_client.get("/openapi.json").json()["paths"])
    pages = {"/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc"}
    pages |= {"/", "/dashboard", "/dashboard/{name:path}"}
    for route in _routes(keyed_client.app.router.routes):  # type: ignore[attr-defined]
        assert route in described | pages


def _routes(routes: object) -> Iterator[str]:
    for route in routes:  # type: ignore[attr-defined]
        if isinstance(route, APIRoute) or hasattr(route, "path"):
            yield route.path
        inner = getattr(route, "original_router", None) or getattr(route, "router", None)
        if inner is not None:
            yield from _routes(inner.routes)


SCOPE_OF = {
    "GET": Scope.READ,
    "POST": Scope.SUBMIT,
    "PATCH": Scope.SUBMIT,
    "DELETE": Scope.SUBMIT,
}


def needed_scope(method: str, path: str) -> Scope:
    if path == "/metrics":
        return Scope.METRICS
    if path == "/v1/audit":
        return Scope.ADMIN
    if path.endswith("-estimates") or path == "/v1/diagnoses":
        return Scope.READ
    return SCOPE_OF[method]


def test_every_route_needs_its_scope(
    keyed_client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of the streams only whether they begin is asked.
    monkeypatch.setattr(event_service, "LONGEST_STREAM_S", 0.1)
    with_all_but = {
        scope: headers_of(database, *(other for other in Scope if other != scope))
        for scope in Scope
    }
    only = {scope: headers_of(database, scope) for scope in Scope}
    for method, path in operations(keyed_client):
        if path in OPEN:
            continue
        scope = needed_scope(method, path)
        refused = keyed_client.request(method, path, headers=with_all_but[scope])
        assert (refused.status_code, refused.json()["code"]) == (403, "not_allowed"), path
        assert f"`{scope}`" in refused.json()["detail"]
        allowed = keyed_client.request(method, path, headers=only[scope])
        assert allowed.status_code not in (401, 403), (method, path, allowed.text)


def test_purge_needs_an_admin(keyed_client: TestClient, database: Database) -> None:
    path = f"/v1/jobs/{'0' * 32}?purge=true"
    headers = headers_of(database, Scope.SUBMIT, Scope.READ)
    assert keyed_client.delete(path, headers=headers).status_code == 403
    headers = headers_of(database, Scope.ADMIN, Scope.SUBMIT)
    assert keyed_client.delete(path, headers=headers).status_code == 404


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Bearer x", "Basic bG06eA==", f"Bearer lm_{'0' * 12}_{'A' * 43}"],
)
def test_what_is_no_valid_key_lets_nobody_in(keyed_client: TestClient, authorization: str) -> None:
    response = keyed_client.get("/v1/jobs", headers={"Authorization": authorization})
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")


def test_right_id_with_another_secret_lets_nobody_in(
    keyed_client: TestClient, database: Database
) -> None:
    key = new_key(database)
    forged = Key(key.id, unknown_key().secret)
    assert status(keyed_client, bearer(forged)) == 401
    assert status(keyed_client, bearer(key)) == 200


def test_expired_key_lets_nobody_in(
    keyed_client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Also while it is remembered.
    monkeypatch.setattr(key_service, "KNOWN_FOR_S", 60.0)
    key = new_key(database, lifetime_s=5)
    assert status(keyed_client, bearer(key)) == 200
    time.sleep(5.1)
    assert status(keyed_client, bearer(key)) == 401


@pytest.mark.usefixtures("no_memory")
def test_revoked_key_lets_nobody_in(keyed_client: TestClient, database: Database) -> None:
    key, other = new_key(database), new_key(database)
    assert status(keyed_client, bearer(key)) == 200
    assert KeyRing(database).revoke("a test", key.id)
    response = keyed_client.get("/v1/jobs", headers=bearer(key))
    assert response.status_code == 401
    assert 'error="invalid_token"' in response.headers["www-authenticate"]
    assert status(keyed_client, bearer(other)) == 200


def test_revoked_key_is_forgotten_in_time(
    keyed_client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert key_service.KNOWN_FOR_S <= 5
    monkeypatch.setattr(key_service, "KNOWN_FOR_S", 0.3)
    key = new_key(database)
    assert status(keyed_client, bearer(key)) == 200
    KeyRing(database).revoke("a test", key.id)
    time.sleep(0.4)
    assert status(keyed_client, bearer(key)) == 401


def test_known_key_is_not_looked_up_for_each_request(
    keyed_client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups = []
    find = key_service.KeyRepository.find

    def counting(self: key_service.KeyRepository, key_id: str) -> object:
        lookups.append(key_id)
        return find(self, key_id)

    monkeypatch.setattr(key_service.KeyRepository, "find", counting)
    monkeypatch.setattr(key_service, "KNOWN_FOR_S", 60.0)
    key = new_key(database)
    unknown = bearer(unknown_key())
    for _ in range(5):
        assert status(keyed_client, bearer(key)) == 200
        assert status(keyed_client, unknown) == 401
    assert len(lookups) == 2


@pytest.mark.usefixtures("no_memory")
def test_use_of_a_key_is_noted_once_a_minute(keyed_client: TestClient, database: Database) -> None:
    key = new_key(database)

    def last_used() -> int | None:
        with database.reading() as session:
            return session.scalars(select(ApiKey.last_used_at)).one()

    assert last_used() is None
    status(keyed_client, bearer(key))
    noted = eventually(last_used)
    time.sleep(0.01)
    status(keyed_client, bearer(key))
    time.sleep(0.2)
    assert last_used() == noted
    with database.writing() as session:
        session.execute(update(ApiKey).values(last_used_at=noted - 61_000))
    status(keyed_client, bearer(key))
    eventually(lambda: (last_used() or 0) > noted)


def test_use_that_cannot_be_noted_fails_no_request(
    keyed_client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.exc import OperationalError

    def fail(*_: object) -> None:
        raise OperationalError("UPDATE", {}, Exception("database is locked"))

    monkeypatch.setattr(key_service.KeyRepository, "note_use", fail)
    assert status(keyed_client, headers_of(database)) == 200


def test_key_in_the_address_is_refused(keyed_client: TestClient, database: Database) -> None:
    key = new_key(database)
    for query in (
        f"key={key.text}",
        f"cursor={key.text}",
        key.text,
        "access_token=abc",
        "API_KEY=",
    ):
        response = keyed_client.get(f"/v1/jobs?{query}", headers=bearer(key))
        assert (response.status_code, response.json()["code"]) == (400, "key_in_address"), query
        assert key.secret not in response.text
    assert keyed_client.get("/v1/jobs?tag=lm_head", headers=bearer(key)).status_code == 200


def test_two_keys_at_once_are_refused(keyed_client: TestClient, database: Database) -> None:
    key = new_key(database)
    for second in (key.text, "lm_another"):
        fields = [("Authorization", f"Bearer {text}") for text in (key.text, second)]
        response = keyed_client.get("/v1/jobs", headers=fields)
        assert (response.status_code, response.json()["code"]) == (401, "not_authenticated")
        assert "single" in response.json()["detail"]
        assert 'error="invalid_request"' in response.headers["www-authenticate"]


def test_keys_are_stored_as_hashes(database: Database) -> None:
    key = new_key(database)
    with database.reading() as session:
        row = session.scalars(select(ApiKey)).one()
        entry = session.scalars(select(AuditEntry)).one()
    stored = " ".join(str(value) for value in (*vars(row).values(), *vars(entry).values()))
    assert key.id in stored
    assert key.secret_hash in stored
    assert key.secret not in stored


def test_secrets_are_not_logged(
    keyed_client: TestClient, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key, unknown = new_key(database), unknown_key()
    for headers in (bearer(key), bearer(unknown)):
        keyed_client.get("/v1/jobs", headers=headers)
        keyed_client.post(ADDRESS, json=BODY, headers=headers)
        keyed_client.post(ADDRESS, content=b"{", headers=headers)
    keyed_client.get(f"/v1/jobs?key={key.text}", headers=bearer(key))
    assert caplog.records
    lines = [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
    # The test's own HTTP client logs the address that it asks for.
    lines = [line for line in lines if not line.startswith("HTTP Request: ")]
    for secret in (key.secret, unknown.secret, key.secret_hash):
        assert [line for line in lines if secret in line] == []


def test_database_down_is_not_taken_for_a_wrong_key(settings: Settings) -> None:
    away = settings.model_copy(
        update={
            "database_url": "postgresql://nobody@/nothing?host=/nowhere",
            "database_timeout_s": 1,
            "authentication": "keys",
        }
    )
    with TestClient(create_app(away), raise_server_exceptions=False) as client:
        response = client.get("/v1/examples", headers=bearer(unknown_key()))
        assert (response.status_code, response.json()["code"]) == (503, "database_unavailable")
        assert client.get("/healthz", headers=bearer(unknown_key())).status_code == 200


def test_description_says_who_needs_a_key(keyed_client: TestClient, client: TestClient) -> None:
    document = keyed_client.get("/openapi.json").json()
    assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert ("security" in operation) == (path not in OPEN)
            assert ({"401", "429"} <= set(operation["responses"])) == (path not in OPEN)
    without = client.get("/openapi.json").json()
    assert "securitySchemes" not in without["components"]
    assert "security" not in str(without["paths"])


def test_caller_of_a_key_is_its_tenant(keyed_client: TestClient, database: Database) -> None:
    mine, others = headers_of(database, tenant="a"), headers_of(database, tenant="b")
    posted = keyed_client.post(ADDRESS, json=BODY, headers=mine).json()["id"]
    assert status(keyed_client, mine, f"/v1/jobs/{posted}") == 200
    assert status(keyed_client, others, f"/v1/jobs/{posted}") == 404


def test_without_keys_a_key_is_not_looked_at(client: TestClient) -> None:
    assert WITHOUT_KEYS["authentication"] == "off"
    assert status(client, bearer(unknown_key())) == 200
