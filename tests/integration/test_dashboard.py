"""The dashboard's files: served to everybody as they are, and nothing else of the machine."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from tests.integration.event_streams import served
from tests.integration.fakes import resolve_fake

SCRIPT = "assets/index-B1a2c3D4.js"
INDEX = f'<!doctype html><script type="module" src="./{SCRIPT}"></script>'
PREFIX = "/tools/loadmaster"
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "font-src": "'self'",
    "manifest-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """What a build of the dashboard leaves, with a secret beside it."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / SCRIPT).write_text("console.log('dashboard');\n" * 20_000)
    (folder / "favicon.svg").write_text("<svg/>")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    return folder


def application(settings: Settings, build: Path) -> FastAPI:
    return create_app(settings, resolve_fake, dashboard_folder=build)


@pytest.fixture
def settings(sqlite_database_url: str, tmp_path: Path) -> Settings:
    """Of a service that asks for keys."""
    return Settings(database_url=sqlite_database_url, data_dir=tmp_path, authentication="keys")


@pytest.fixture
def pages(settings: Settings, build: Path) -> Iterator[TestClient]:
    with TestClient(application(settings, build), raise_server_exceptions=False) as client:
        client.follow_redirects = False
        yield client


def test_the_pages_need_no_key_and_the_rest_does(pages: TestClient) -> None:
    index = pages.get("/dashboard/")
    assert (index.status_code, index.text) == (200, INDEX)
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    script = pages.get(f"/dashboard/{SCRIPT}")
    assert script.status_code == 200
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"
    refused = pages.get("/v1/jobs")
    # What the pages need to know to ask for a key.
    assert (refused.status_code, refused.json()["code"]) == (401, "not_authenticated")
    assert pages.get("/v1/jobs/none").status_code == 401


@pytest.mark.parametrize("path", ["/dashboard/", f"/dashboard/{SCRIPT}", "/dashboard/none.js"])
def test_the_pages_run_their_own_scripts_only(pages: TestClient, path: str) -> None:
    answer = pages.get(path)
    directives = answer.headers["content-security-policy"].split("; ")
    assert dict(each.split(" ", 1) for each in directives) == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_other_addresses_keep_their_policy(pages: TestClient) -> None:
    for path in ("/v1/jobs", "/dashboard", "/healthz"):
        policy = pages.get(path).headers["content-security-policy"]
        assert policy == "default-src 'none'; frame-ancestors 'none'"


def test_names_that_change_with_the_content_are_kept_for_ever(pages: TestClient) -> None:
    caching = pages.get(f"/dashboard/{SCRIPT}").headers["cache-control"]
    assert caching == "public, max-age=31536000, immutable"
    for path in ("/dashboard/", "/dashboard/index.html", "/dashboard/favicon.svg"):
        assert pages.get(path).headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("coding", ["identity", "gzip", "br"])
def test_what_a_browser_has_is_not_sent_again(pages: TestClient, coding: str) -> None:
    whole = pages.get(f"/dashboard/{SCRIPT}", headers={"accept-encoding": coding})
    assert whole.headers.get("content-encoding", "identity") == coding
    tag = whole.headers["etag"]
    again = pages.get(f"/dashboard/{SCRIPT}", headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["cache-control"] == whole.headers["cache-control"]
    assert pages.get("/dashboard/", headers={"if-none-match": tag}).status_code == 200


def test_a_new_build_has_new_tags(settings: Settings, build: Path, pages: TestClient) -> None:
    before = pages.get("/dashboard/").headers["etag"]
    (build / "index.html").write_text(f"{INDEX}<p>new")
    assert pages.get("/dashboard/").headers["etag"] == before
    with TestClient(application(settings, build)) as client:
        assert client.get("/dashboard/").headers["etag"] != before


@pytest.mark.parametrize("path", ["/dashboard/", f"/dashboard/{SCRIPT}", "/dashboard", "/"])
def test_head_is_get_without_the_body(pages: TestClient, path: str) -> None:
    browser = {"accept": "text/html", "accept-encoding": "identity"}
    got, head = pages.get(path, headers=browser), pages.head(path, headers=browser)
    assert head.status_code == got.status_code
    for name in ("etag", "content-type", "cache-control", "location"):
        assert head.headers.get(name) == got.headers.get(name)
    assert pages.post(path, headers=browser).status_code == 405


OUTSIDE = (
    "/dashboard/../secret.txt",
    "/dashboard/..%2fsecret.txt",
    "/dashboard/%2e%2e/secret.txt",
    "/dashboard/assets/../../secret.txt",
    "/dashboard/..%5csecret.txt",
    "/dashboard//etc/passwd",
    "/dashboard/%2fetc%2fpasswd",
    "/dashboard/link.txt",
    "/dashboard/assets",
    "/dashboard/assets/",
    "/dashboard/%00",
)


def test_nothing_outside_of_the_build_is_served(settings: Settings, build: Path) -> None:
    """Asked for by a client that does not tidy addresses up first, as `httpx` does."""
    with served(application(settings, build)) as server:
        connection = http.client.HTTPConnection(server.base_url.host, server.base_url.port or 0)
        for path in OUTSIDE:
            connection.request("GET", path)
            answer = connection.getresponse()
            content = json.loads(answer.read())
            assert (answer.status, content["code"]) == (404, "not_found"), path
        connection.close()


def test_names_outside_of_the_build_are_unknown(settings: Settings, build: Path) -> None:
    files = application(settings, build).state.services.dashboard_files
    assert sorted(files) == [SCRIPT, "favicon.svg", "index.html"]


def test_browsers_are_led_to_it_and_programs_are_not(pages: TestClient) -> None:
    browser = pages.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (browser.status_code, browser.headers["location"]) == (307, "dashboard/")
    assert pages.get("/").status_code == 404
    folder = pages.get("/dashboard")
    assert (folder.status_code, folder.headers["location"]) == (307, "dashboard/")


@pytest.mark.parametrize("sent", ["", PREFIX])
def test_it_is_found_below_a_path_of_a_proxy(settings: Settings, build: Path, sent: str) -> None:
    below = settings.model_copy(update={"root_path": PREFIX})
    with TestClient(application(below, build)) as client:
        index = client.get(f"{sent}/dashboard")
        assert (index.url.path, index.text) == (f"{PREFIX}/dashboard/", INDEX)
        assert client.get(f"{sent}/dashboard/{SCRIPT}").status_code == 200
        assert "script-src 'self'" in index.headers["content-security-policy"]
        landed = client.get(f"{sent}/", headers={"accept": "text/html"})
        assert landed.url.path == f"{PREFIX}/dashboard/"


def test_without_a_build_it_says_so(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "none"):
        with TestClient(application(settings, tmp_path / folder)) as client:
            answer = client.get("/dashboard/")
            assert (answer.status_code, answer.json()["code"]) == (404, "dashboard_missing")
            assert "scripts/dashboard build" in answer.json()["detail"]
            assert client.get("/healthz").status_code == 200


def test_hosts_that_the_service_does_not_go_by_get_nothing(
    sqlite_database_url: str, build: Path
) -> None:
    """A page that points its own name at this machine must not read it as its own."""
    local = Settings(database_url=sqlite_database_url, authentication="off")
    app = application(local, build)
    with TestClient(app, base_url="http://localhost", client=("127.0.0.1", 1)) as client:
        assert client.get("/dashboard/").status_code == 200
        assert client.get("/dashboard/", headers={"host": "evil.example"}).status_code == 421


def test_it_is_no_part_of_the_api(pages: TestClient) -> None:
    assert not any("dashboard" in path for path in pages.get("/openapi.json").json()["paths"])
