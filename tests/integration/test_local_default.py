"""Without keys: only this machine, only by its own names, and no web page of another origin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from starlette.testclient import TestClient

from app.errors import PROBLEM_MEDIA_TYPE
from app.main import create_app
from app.settings import Settings
from tests.integration.fakes import resolve_fake
from tests.integration.helpers import ADDRESS

BODY = {"script": "answer"}
ORIGIN = "https://plans.example"
LOCAL: dict[str, Any] = {
    "authentication": "off",
    "allow_anyone_on_the_network": False,
    "allowed_hosts": (),
}


@pytest.fixture
def database_url(sqlite_database_url: str) -> str:
    """What a request is refused for before any route has nothing to do with the database."""
    return sqlite_database_url


@pytest.fixture
def local(settings: Settings) -> Iterator[TestClient]:
    yield from reached_at("http://127.0.0.1:8400", settings)


def reached_at(address: str, settings: Settings, **changes: Any) -> Iterator[TestClient]:
    app = create_app(settings.model_copy(update={**LOCAL, **changes}), resolve_fake)
    with TestClient(app, base_url=address, raise_server_exceptions=False) as client:
        yield client


def refusal(client: TestClient, method: str = "GET", path: str = "/v1/jobs", **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    body = BODY if method == "POST" else None
    response = client.request(method, path, json=body, headers=names)
    if response.is_success:
        return None
    assert response.headers["content-type"] == PROBLEM_MEDIA_TYPE
    return response.status_code, response.json()["code"]


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8400", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8400", "[::1]:8400"],
)
def test_own_names_are_answered_to(local: TestClient, host: str) -> None:
    assert refusal(local, host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8400", "127.0.0.1.evil.example", "localhost.evil"),
        *("10.0.0.1", "0.0.0.0", "127.0.0.2", "", "[", "[::1", "127.0.0.1:8400:80", "localhost/"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/healthz", "/docs", "/nowhere"])
def test_foreign_names_are_not_answered_to(local: TestClient, host: str, path: str) -> None:
    assert refusal(local, path=path, host=host) == (421, "unknown_host")


def test_two_names_are_not_answered_to(local: TestClient) -> None:
    headers = [("host", "localhost"), ("host", "evil.example")]
    assert local.get("/v1/jobs", headers=headers).status_code == 421


def test_names_can_be_added(settings: Settings) -> None:
    names = ("plans.example", "other.example:8443")
    for client in reached_at("http://127.0.0.1", settings, allowed_hosts=names):
        assert refusal(client, host="plans.example:99") is None
        assert refusal(client, host="other.example:8443") is None
        assert refusal(client, host="other.example") == (421, "unknown_host")
        assert refusal(client, host="localhost") is None


@pytest.mark.parametrize("address", ["http://10.1.2.3:8400", "http://[fe80::1]", "http://box"])
def test_other_addresses_than_loopback_are_refused(settings: Settings, address: str) -> None:
    for client in reached_at(address, settings):
        assert refusal(client, host="localhost") == (403, "local_only")
        assert refusal(client, path="/healthz") == (403, "local_only")


def test_anyone_on_the_network_if_asked_for_in_so_many_words(settings: Settings) -> None:
    anyone = {"allow_anyone_on_the_network": True}
    for client in reached_at("http://10.1.2.3:8400", settings, **anyone):
        assert refusal(client) is None
        assert refusal(client, "POST", ADDRESS) is None
        assert refusal(client, host="evil.example") == (421, "unknown_host")
        assert refusal(client, "POST", ADDRESS, origin=ORIGIN) == (403, "foreign_origin")


def test_ipv6_loopback_is_this_machine(settings: Settings) -> None:
    for client in reached_at("http://[::1]:8400", settings):
        assert refusal(client) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": ORIGIN},
        {"origin": "null"},
        {"origin": "http://localhost:3000"},
        {"origin": "http://127.0.0.1"},
        {"origin": "chrome-extension://abcdef"},
        {"origin": "http://127.0.0.1:8400.evil.example"},
        {"origin": ""},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
def test_other_origins_change_nothing(local: TestClient, headers: dict[str, str]) -> None:
    job_path = f"/v1/jobs/{local.post(ADDRESS, json=BODY).json()['id']}"
    for method, path in (("POST", ADDRESS), ("DELETE", job_path), ("POST", "/nowhere")):
        assert refusal(local, method, path, **headers) == (403, "foreign_origin")
    assert local.get(job_path).json()["state"] == "queued"


def test_own_origin_may_change_things(local: TestClient) -> None:
    for origin in ("http://127.0.0.1:8400", "HTTP://127.0.0.1:8400".lower()):
        assert refusal(local, "POST", ADDRESS, origin=origin) is None
    own = {"host": "localhost:8400", "origin": "http://localhost:8400"}
    assert refusal(local, "POST", ADDRESS, **own, sec_fetch_site="same-origin") is None
    assert refusal(local, "POST", ADDRESS, host="localhost", origin="http://localhost") is None
    assert refusal(local, "POST", ADDRESS, sec_fetch_site="none") is None


def test_other_origins_are_told_nothing(local: TestClient) -> None:
    response = local.get("/v1/jobs", headers={"origin": ORIGIN})
    assert response.status_code == 200
    assert [name for name in response.headers if name.startswith("access-control")] == []
    assert response.headers["cross-origin-resource-policy"] == "same-origin"
    preflight = {"origin": ORIGIN, "access-control-request-method": "POST"}
    response = local.options(ADDRESS, headers=preflight)
    assert response.status_code == 405
    assert [name for name in response.headers if name.startswith("access-control")] == []


@pytest.mark.parametrize("authentication", ["off", "keys"])
def test_allowed_origins_may(settings: Settings, authentication: str) -> None:
    changes = {"allowed_origins": (ORIGIN,), "authentication": authentication}
    for client in reached_at("http://127.0.0.1", settings, **changes):
        preflight = {
            "origin": ORIGIN,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization, content-type, idempotency-key",
        }
        answer = client.options(ADDRESS, headers=preflight)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert answer.headers["x-content-type-options"] == "nosniff"
        other = client.options(ADDRESS, headers={**preflight, "origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers
        posted = client.post(ADDRESS, json=BODY, headers={"origin": ORIGIN})
        assert posted.status_code == (202 if authentication == "off" else 401)
        assert posted.headers["access-control-allow-origin"] == ORIGIN
        assert "RateLimit" in posted.headers["access-control-expose-headers"]
        assert "access-control-allow-credentials" not in posted.headers


def test_with_keys_any_name_and_address_will_do(settings: Settings) -> None:
    for client in reached_at("http://10.1.2.3", settings, authentication="keys"):
        assert refusal(client, host="plans.example") == (401, "not_authenticated")
        assert refusal(client, host="[") == (401, "not_authenticated")
    named = {"authentication": "keys", "allowed_hosts": ("plans.example",)}
    for client in reached_at("http://10.1.2.3", settings, **named):
        assert refusal(client, host="plans.example") == (401, "not_authenticated")
        assert refusal(client, host="evil.example") == (421, "unknown_host")


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/x-www-form-urlencoded", "json"]
)
def test_body_has_to_be_declared_as_json(local: TestClient, content_type: str | None) -> None:
    """Otherwise a page could send it without being asked for permission first."""
    headers = {} if content_type is None else {"content-type": content_type}
    paths = local.get("/openapi.json").json()["paths"]
    posts = [
        path.format(run_id=UUID(int=0), version=1)
        for path, methods in paths.items()
        if "post" in methods
    ]
    assert len(posts) >= 10
    for path in posts:
        response = local.post(path, content=b"{}", headers=headers)
        assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")


def test_malformed_body_is_an_error_with_a_remedy(local: TestClient) -> None:
    headers = {"content-type": "application/json"}
    for content in (b"{", b"[" * 100_000, b'{"a": ' + b"[" * 80 + b"]" * 80 + b"}", b'{"a": NaN}'):
        response = local.post(ADDRESS, content=content, headers=headers)
        assert (response.status_code, response.json()["code"]) == (400, "malformed_body")
        (error,) = response.json()["errors"]
        assert error["path"] == ""
        assert error["message"]
        assert error["remedy"]


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/jobs", 200), ("/healthz", 200), ("/nowhere", 404), ("/v1/jobs?limit=0", 422)],
)
def test_every_answer_has_security_headers(local: TestClient, path: str, status: int) -> None:
    response = local.get(path)
    assert response.status_code == status
    assert_secure(response.headers)
    assert response.headers["content-security-policy"].startswith("default-src 'none';")
    assert "no-" in response.headers["cache-control"]


def test_refusals_and_failures_have_security_headers(settings: Settings) -> None:
    def broken(_: object) -> Any:
        raise RuntimeError("broken")

    app = create_app(settings.model_copy(update=LOCAL), broken)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        assert_secure(client.get("/v1/jobs", headers={"host": "evil.example"}).headers)
        failed = client.post(ADDRESS, json={})
        assert failed.status_code == 500
        assert_secure(failed.headers)


def assert_secure(headers: Any) -> None:
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_documentation_page_may_load_its_scripts(local: TestClient) -> None:
    page = local.get("/docs")
    policy = page.headers["content-security-policy"]
    assert "https://cdn.jsdelivr.net" in policy
    assert "connect-src 'self'" in policy
    assert "https://cdn.jsdelivr.net" in page.text
