"""What `/metrics` says: of the rows, of what happened, and to whom."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import event, text
from starlette.testclient import TestClient

from app.callers import Scope
from app.database import Database
from app.main import create_app
from app.models import LONG
from app.observability import rows
from app.services.attempts import Attempts
from app.services.sweeping import take_back_lapsed
from app.services.transitions import Crashed, GivenBack, OutOfMemory
from app.settings import Settings
from planner.version import __version__
from tests.integration.conftest import WITHOUT_KEYS
from tests.integration.fakes import resolve_fake
from tests.integration.helpers import claim, finish, lapse_leases, post, set_columns
from tests.integration.keys import headers_of

Labels = dict[str, str]
Samples = dict[str, list[tuple[Labels, float]]]


def scrape(client: TestClient) -> Samples:
    """All samples, by name."""
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(samples: Samples, name: str, **labels: str) -> float:
    """The sum of a metric's samples that have these labels."""
    return sum(number for own, number in samples.get(name, []) if labels.items() <= own.items())


Change = Callable[..., float]


@pytest.fixture
def change(client: TestClient) -> Change:
    """By how much a metric has grown since the test began: others count in this process too."""
    before = scrape(client)

    def difference(name: str, **labels: str) -> float:
        return value(scrape(client), name, **labels) - value(before, name, **labels)

    return difference


@pytest.fixture(autouse=True)
def _read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "KEPT_S", -1.0)


def test_what_waits_and_runs_is_read_from_the_rows(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    samples = scrape(client)
    assert value(samples, "loadmaster_queue_depth") == 0
    assert value(samples, "loadmaster_queue_oldest_age_seconds") == 0
    post(client, "long", time_limit_s=3000)
    post(client, "first")
    post(client, "second")
    set_columns(database, created_at=text("created_at - 90000"))
    samples = scrape(client)
    assert value(samples, "loadmaster_queue_depth", queue="short") == 2
    assert value(samples, "loadmaster_queue_depth", queue=LONG) == 1
    assert 90 <= value(samples, "loadmaster_queue_oldest_age_seconds", queue="short") < 300
    assert value(samples, "loadmaster_workers_busy") == 0
    order = claim(attempts, database)
    samples = scrape(client)
    assert value(samples, "loadmaster_queue_depth") == 2
    assert value(samples, "loadmaster_solves_running") == 1
    assert value(samples, "loadmaster_workers_busy") == 1
    lapse_leases(database)
    assert value(scrape(client), "loadmaster_workers_busy") == 0
    assert order.fence.attempt == 1
    assert value(scrape(client), "loadmaster_build_info", version=__version__) == 1


def test_jobs_are_counted_by_what_the_cache_had(
    client: TestClient, database: Database, attempts: Attempts, change: Change
) -> None:
    post(client)
    post(client)
    finish(attempts, database)
    post(client)
    for cache in ("miss", "joined", "hit"):
        assert change("loadmaster_jobs_total", kind="pipeline", cache=cache) == 1


def test_a_solve_that_is_over_is_counted_with_its_time_wait_and_gap(
    client: TestClient, database: Database, attempts: Attempts, change: Change
) -> None:
    post(client, engine="cbc")
    set_columns(database, created_at=text("created_at - 7000"), spent_ms=2000)
    finish(attempts, database, objective=100, lower_bound=75, proven_optimal=False)
    labels = {"kind": "pipeline", "engine": "cbc"}
    ended = {**labels, "state": "succeeded", "size": "small"}
    assert change("loadmaster_solve_duration_seconds_count", **ended) == 1
    assert change("loadmaster_gap_ratio_sum", **labels) == pytest.approx(0.25)
    assert change("loadmaster_attempts_total", **labels, ending="answered") == 1
    assert 7 <= change("loadmaster_queue_wait_seconds_sum", kind="pipeline", queue="short") < 60


def test_crashes_losses_and_what_else_ends_an_attempt_are_told_apart(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings, change: Change
) -> None:
    post(client)
    finish(attempts, database, GivenBack())
    finish(attempts, database, Crashed("bang"))
    claim(attempts, database)
    lapse_leases(database)
    assert take_back_lapsed(database, settings) == 1
    finish(attempts, database, OutOfMemory(1, None))
    for ending in ("given_back", "crashed", "lost", "out_of_memory"):
        assert change("loadmaster_attempts_total", ending=ending) == 1
    assert change("loadmaster_solve_duration_seconds_count") == 1
    assert change("loadmaster_queue_wait_seconds_count") == 1


def test_a_solve_that_is_cancelled_before_it_starts_is_over_too(
    client: TestClient, change: Change
) -> None:
    job = post(client)
    client.delete(f"/v1/jobs/{job['id']}")
    assert change("loadmaster_solve_duration_seconds_count", state="cancelled") == 1


def test_requests_are_counted_by_route(client: TestClient, change: Change) -> None:
    job = post(client)
    client.get(f"/v1/jobs/{job['id']}")
    client.get(f"/v1/jobs/{job['id']}")
    labels = {"method": "GET", "route": "/v1/jobs/{job_id}", "status": "200"}
    assert change("loadmaster_http_requests_total", **labels) == 2
    assert change("loadmaster_http_requests_total", route="/v1/pipeline-schedules") == 1


def test_however_many_ask_the_rows_are_read_once_a_second(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "KEPT_S", 60.0)
    scrape(client)
    statements: list[str] = []
    engine = client.app.state.services.database.engine  # type: ignore[attr-defined]
    event.listen(engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    for _ in range(3):
        scrape(client)
    assert [statement for statement in statements if "GROUP BY" in statement] == []


def test_without_its_database_the_metrics_say_so(tmp_path: Path) -> None:
    settings = Settings(
        database_url=f"postgresql://nobody@/nothing?host={tmp_path}",
        database_timeout_s=1,
        **WITHOUT_KEYS,
    )
    app = create_app(settings, resolve_fake)
    with TestClient(app, raise_server_exceptions=False) as client:
        samples = scrape(client)
        failures = value(samples, "loadmaster_database_errors_total")
        assert value(samples, "loadmaster_database_up") == 0
        assert "loadmaster_queue_depth" not in samples
        client.get("/v1/jobs")
        assert value(scrape(client), "loadmaster_database_errors_total") > failures


def test_the_figures_of_all_are_for_those_who_may_see_them(
    keyed_client: TestClient, keyed_settings: Settings, database: Database
) -> None:
    assert keyed_client.get("/metrics").status_code == 401
    tenant = headers_of(database, Scope.READ, Scope.SUBMIT, Scope.ADMIN)
    assert keyed_client.get("/metrics", headers=tenant).status_code == 403
    watcher = headers_of(database, Scope.METRICS)
    assert keyed_client.get("/metrics", headers=watcher).status_code == 200
    public = keyed_settings.model_copy(update={"metrics_public": True})
    with TestClient(create_app(public, resolve_fake)) as client:
        assert client.get("/metrics").status_code == 200
        assert client.get("/v1/jobs").status_code == 401
