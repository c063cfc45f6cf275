"""Errors are problem documents, and nothing that a client sends is the service's fault."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from tests.integration.fakes import resolve_fake
from tests.integration.helpers import ADDRESS, post

MEMBERS = {"type", "title", "status", "detail", "code", "instance", "errors"}
UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"


def check(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert set(body) >= MEMBERS
    assert (body["status"], body["code"]) == (status, code)
    assert body["type"] == f"urn:loadmaster:problem:{code}"
    assert body["detail"]
    return body


def test_a_spec_error_names_the_field_and_the_remedy(client: TestClient) -> None:
    body = check(client.post(ADDRESS, json={"scipt": 1}), 422, "invalid_request")
    assert body["instance"] == ADDRESS
    assert body["errors"] == [
        {"path": "scipt", "message": "is not a known field.", "remedy": "Remove it."}
    ]


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 400, "malformed_body"),
        (b"{", 400, "malformed_body"),
        (b"\xff\xfe{}", 400, "malformed_body"),
        (b'{"script": NaN}', 400, "malformed_body"),
        (b'{"script": -Infinity}', 400, "malformed_body"),
        (b'{"script": 1e999}', 400, "malformed_body"),
        (b'{"script": ' + b"9" * 5000 + b"}", 400, "malformed_body"),
        (b'{"script": 1, "script": 2}', 400, "malformed_body"),
        (b'{"script": ' + b"[" * 100_000, 400, "malformed_body"),
        (b'{"script": ' + b"[" * 70 + b"]" * 70 + b"}", 400, "malformed_body"),
        (b"[]", 422, "invalid_request"),
        (b'"text"', 422, "invalid_request"),
        (b'{"name": "\\u0000"}', 422, "invalid_request"),
        (b'{"script": ["\\ud800"]}', 422, "invalid_request"),
        (b'{"\\udfff": 1}', 422, "invalid_request"),
        (b'{"name": 3}', 422, "invalid_request"),
        (b'{"name": ""}', 422, "invalid_request"),
        (b'{"tags": "a"}', 422, "invalid_request"),
        (b'{"tags": [""]}', 422, "invalid_request"),
        (b'{"priority": 10}', 422, "invalid_request"),
        (b'{"priority": true}', 422, "invalid_request"),
        (b'{"problem": {"micro_batches": 1e15}}', 422, "limit_exceeded"),
        (b'{"training": {"pipeline_parallel": 100000}}', 422, "limit_exceeded"),
        (b'{"time_limit_s": 1e6}', 422, "limit_exceeded"),
    ],
)
def test_bad_bodies(client: TestClient, raw: bytes, status: int, code: str) -> None:
    headers = {"content-type": "application/json"}
    check(client.post(ADDRESS, content=raw, headers=headers), status, code)


def test_every_bad_field_of_the_job_is_named(client: TestClient) -> None:
    bad = {"name": 1, "tags": ["a", 2], "priority": -1}
    body = check(client.post(ADDRESS, json=bad), 422, "invalid_request")
    assert [error["path"] for error in body["errors"]] == ["name", "tags.1", "priority"]


def test_a_body_that_is_not_json_is_refused(client: TestClient) -> None:
    response = client.post(ADDRESS, content=b"a=1", headers={"content-type": "text/plain"})
    check(response, 415, "unsupported_media_type")


def test_a_compressed_body_is_refused(client: TestClient) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    response = client.post(ADDRESS, content=gzip.compress(b"{}"), headers=headers)
    assert "Content-Encoding" in check(response, 415, "unsupported_media_type")["detail"]


@pytest.mark.parametrize("address", [ADDRESS, "/v1/memory-estimates", "/v1/batches"])
def test_a_body_of_too_many_values_is_refused(settings: Settings, address: str) -> None:
    few = settings.model_copy(update={"max_body_values": 1000})
    with TestClient(create_app(few, resolve_fake)) as client:
        response = client.post(address, json={"requests": [{}] * 500})
    assert "at most 1000 values" in check(response, 413, "body_too_large")["detail"]


@pytest.mark.parametrize("declared", [True, False])
def test_a_body_that_is_too_large_is_refused(settings: Settings, declared: bool) -> None:
    small = settings.model_copy(update={"max_body_bytes": 100})
    body = b" " * 101
    with TestClient(create_app(small, resolve_fake)) as client:
        content = body if declared else iter([body[:50], body[50:]])
        response = client.post(
            ADDRESS, content=content, headers={"content-type": "application/json"}
        )
    check(response, 413, "body_too_large")


@pytest.mark.parametrize(
    ("limits", "path"),
    [
        ({"max_stages": 0}, "problem.stages"),
        ({"max_micro_batches": 0}, "problem.micro_batches"),
        ({"max_operations": 2}, "problem"),
    ],
)
def test_resolved_requests_that_are_too_large(
    settings: Settings, limits: dict[str, int], path: str
) -> None:
    with TestClient(create_app(settings.model_copy(update=limits), resolve_fake)) as client:
        body = check(client.post(ADDRESS, json={}), 422, "limit_exceeded")
    assert body["errors"][0]["path"] == path
    assert body["errors"][0]["remedy"]


def test_a_number_beyond_any_float_is_too_large(client: TestClient) -> None:
    raw = f'{{"training": {{"micro_batches": 1{"0" * 400}}}}}'
    headers = {"content-type": "application/json"}
    response = client.post("/v1/memory-estimates", content=raw, headers=headers)
    assert check(response, 422, "limit_exceeded")["errors"][0]["path"] == "training.micro_batches"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=x", "limit"),
        ("state=unknown", "state"),
        ("name=%00", "name"),
        ("cursor=nonsense", "cursor"),
        ("cursor=w7w", "cursor"),
    ],
)
def test_bad_queries(client: TestClient, query: str, field: str) -> None:
    body = check(client.get(f"/v1/jobs?{query}"), 422, "invalid_request")
    assert body["errors"][0]["path"] == field
    assert body["errors"][0]["remedy"]


def test_bad_offsets(client: TestClient) -> None:
    address = f"/v1/jobs/{post(client)['id']}/log"
    for offset in ("-1", "99999999999", "x"):
        check(client.get(f"{address}?offset={offset}"), 422, "invalid_request")


@pytest.mark.parametrize("job_id", [UNKNOWN_ID, "x", "%00", "1" * 3000])
@pytest.mark.parametrize("tail", ["", "/result", "/log"])
def test_unknown_jobs(client: TestClient, job_id: str, tail: str) -> None:
    check(client.get(f"/v1/jobs/{job_id}{tail}"), 404, "job_not_found")
    if not tail:
        check(client.delete(f"/v1/jobs/{job_id}"), 404, "job_not_found")


def test_unknown_addresses_and_methods(client: TestClient) -> None:
    check(client.get("/v1/nothing"), 404, "not_found")
    check(client.get("/v1/jobs/"), 404, "not_found")
    response = client.put(ADDRESS, json={})
    check(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"
    several = {"/v1/jobs/1": "GET, DELETE", "/v1/batches": "GET, POST", "/healthz": "GET, HEAD"}
    for address, allowed in several.items():
        response = client.put(address)
        check(response, 405, "method_not_allowed")
        assert response.headers["allow"] == allowed


def test_a_fault_of_the_service_shows_no_traceback(settings: Settings) -> None:
    def broken(body: Any) -> Any:
        raise KeyError("secret")

    app = create_app(settings, broken)
    with TestClient(app, raise_server_exceptions=False) as client:
        response = client.post(ADDRESS, json={})
    check(response, 500, "internal_error")
    assert "secret" not in response.text


def test_a_database_that_is_down_asks_to_try_again(settings: Settings) -> None:
    def unreachable(body: Any) -> Any:
        raise OperationalError("SELECT 1", {}, Exception("connection refused"))

    app = create_app(settings, unreachable)
    with TestClient(app) as client:
        response = client.post(ADDRESS, json={})
    check(response, 503, "database_unavailable")
    assert response.headers["Retry-After"] == "2"
