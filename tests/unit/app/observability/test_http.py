"""What is noted of a request: its id, a line in the log, a count by the route's template."""

from __future__ import annotations

import logging

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from app import error_handlers
from app.errors import JobNotFound
from app.observability import context
from app.observability.http import RequestObserver
from app.observability.metrics import REGISTRY

PROBLEM = "application/problem+json"


def count(route: str, status: int, method: str = "GET") -> float:
    labels = {"method": method, "route": route, "status": str(status)}
    return REGISTRY.get_sample_value("loadmaster_http_requests_total", labels) or 0.0


def durations(route: str) -> float:
    name = "loadmaster_http_request_duration_seconds_count"
    return REGISTRY.get_sample_value(name, {"method": "GET", "route": route}) or 0.0


@pytest.fixture
def client() -> TestClient:
    app = FastAPI(telemetry={"tracing": False, "metrics": False, "logs": False})

    @app.get("/things/{name}")
    def thing(name: str) -> dict[str, object]:
        context.bind(tenant="t1")
        logging.getLogger("app.things").info("looked at")
        return dict(context.fields())

    @app.get("/healthz")
    def health() -> None:
        """Well."""

    @app.get("/gone")
    def gone() -> None:
        raise JobNotFound("no")

    @app.get("/broken")
    def broken() -> None:
        raise ValueError("a fault")

    @app.get("/v1/jobs/{job_id}/events")
    def events(job_id: str) -> None:
        """A stream."""

    error_handlers.install(app)
    app.add_middleware(RequestObserver)
    return TestClient(app, raise_server_exceptions=False)


def test_a_sane_request_id_is_kept_and_another_one_is_made(client: TestClient) -> None:
    answer = client.get("/things/a", headers={"X-Request-ID": "abc-1"})
    assert answer.headers["X-Request-ID"] == "abc-1"
    assert answer.json()["request_id"] == "abc-1"
    for insane in ("", "a b", "x" * 65, "a\x7fb"):
        made = client.get("/things/a", headers={"X-Request-ID": insane}).headers["X-Request-ID"]
        assert made != insane
        assert len(made) == 32


@pytest.mark.parametrize(("path", "status"), [("/gone", 404), ("/nowhere", 404), ("/broken", 500)])
def test_every_problem_says_which_request_it_was(
    client: TestClient, path: str, status: int
) -> None:
    answer = client.get(path, headers={"X-Request-ID": "r-7"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    assert answer.json()["request_id"] == "r-7"
    assert answer.headers.get_list("X-Request-ID") == ["r-7"]


def test_requests_are_counted_by_template_not_by_path(client: TestClient) -> None:
    before = count("/things/{name}", 200), durations("/things/{name}")
    client.get("/things/a")
    client.get("/things/b?secret=1")
    assert count("/things/{name}", 200) - before[0] == 2
    assert durations("/things/{name}") - before[1] == 2
    before_unmatched = count("unmatched", 404)
    client.get("/nowhere/1")
    assert count("unmatched", 404) - before_unmatched == 1
    before_broken = count("/broken", 500)
    client.get("/broken")
    assert count("/broken", 500) - before_broken == 1
    before_other = count("unmatched", 404, "other")
    client.request("BREW", "/nowhere")
    assert count("unmatched", 404, "other") - before_other == 1


def test_streams_are_counted_but_not_timed(client: TestClient) -> None:
    route = "/v1/jobs/{job_id}/events"
    before = count(route, 200), durations(route)
    client.get("/v1/jobs/1/events")
    assert (count(route, 200) - before[0], durations(route) - before[1]) == (1, 0)


def test_a_line_per_request_without_its_query(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client.get("/things/a%0Ab?token=hidden", headers={"Authorization": "Bearer hidden"})
    lines = [entry for entry in caplog.records if entry.name == "loadmaster.access"]
    assert [entry.getMessage().rpartition(" in ")[0] for entry in lines] == [
        "GET /things/a%0Ab 200"
    ]
    assert "hidden" not in str([vars(entry) for entry in lines])


def test_polls_are_in_the_log_only_where_they_failed_or_when_everything_is(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    def lines() -> list[str]:
        found = [entry for entry in caplog.records if entry.name == "loadmaster.access"]
        caplog.clear()
        return [entry.levelname for entry in found]

    caplog.set_level(logging.INFO)
    client.get("/healthz")
    assert lines() == []
    client.post("/healthz")
    assert lines() == ["INFO"]
    caplog.set_level(logging.DEBUG)
    client.get("/healthz")
    assert lines() == ["DEBUG"]
