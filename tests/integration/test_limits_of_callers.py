"""How often a caller may ask, and how much of the queue a tenant may take."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from redis.exceptions import RedisError
from starlette.testclient import TestClient

from app.callers import Scope
from app.database import Database
from app.main import create_app
from app.repositories.tenants import TenantRepository
from app.security import rate_limit
from app.security.rate_limit import RateLimiter
from app.services.attempts import Attempts
from app.services.tenants import Tenants
from app.settings import Settings
from tests.integration.conftest import start_broker
from tests.integration.fakes import resolve_fake
from tests.integration.helpers import ADDRESS, claim, eventually, finish
from tests.integration.keys import bearer, headers_of, new_key

BATCH = "/v1/batches"


def served(settings: Settings, **changes: object) -> Iterator[TestClient]:
    app = create_app(settings.model_copy(update=changes), resolve_fake)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture(autouse=True)
def middle_of_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """No minute ends while a test counts."""

    class Clock:
        def time(self) -> float:
            return 600_000 * 60 + 30.0

    monkeypatch.setattr(rate_limit, "time", Clock())


def test_too_many_requests_are_told_when_to_come_again(
    keyed_settings: Settings, database: Database
) -> None:
    key, other = new_key(database), new_key(database)
    for client in served(keyed_settings, requests_per_minute=3):
        answers = [client.get("/v1/jobs", headers=bearer(key)) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        lefts = [answer.headers["ratelimit"] for answer in answers]
        assert lefts == [f'"requests";r={left};t=30' for left in (2, 1, 0, 0)]
        assert {a.headers["ratelimit-policy"] for a in answers} == {'"requests";q=3;w=60'}
        assert answers[-1].json()["code"] == "too_many_requests"
        assert answers[-1].headers["retry-after"] == "30"
        assert client.get("/v1/jobs", headers=bearer(other)).status_code == 200
        assert client.get("/healthz", headers=bearer(key)).status_code == 200


def test_answers_without_a_body_of_the_routes_have_the_fields_too(
    keyed_settings: Settings, database: Database
) -> None:
    headers = headers_of(database)
    for client in served(keyed_settings, requests_per_minute=100):
        for path in ("/v1/jobs?limit=0", "/v1/jobs/1", "/v1/examples"):
            assert (
                client.get(path, headers=headers).headers["ratelimit"].startswith('"requests";r=')
            )
        assert client.get("/v1/jobs").headers["ratelimit"].startswith('"requests";r=')


def test_tenant_can_have_its_own_rate(keyed_settings: Settings, database: Database) -> None:
    Tenants(database).change("a test", "busy", {"requests_per_minute": 0})
    Tenants(database).change("a test", "calm", {"requests_per_minute": 1})
    busy, calm = headers_of(database, tenant="busy"), headers_of(database, tenant="calm")
    for client in served(keyed_settings, requests_per_minute=2):
        answers = [client.get("/v1/jobs", headers=busy) for _ in range(5)]
        assert {answer.status_code for answer in answers} == {200}
        assert "ratelimit" not in answers[0].headers
        assert [client.get("/v1/jobs", headers=calm).status_code for _ in range(2)] == [200, 429]


def test_without_keys_the_client_is_counted(settings: Settings) -> None:
    for client in served(settings, requests_per_minute=2):
        assert [client.get("/v1/jobs").status_code for _ in range(3)] == [200, 200, 429]
    for client in served(settings, requests_per_minute=0):
        assert "ratelimit" not in client.get("/v1/jobs").headers


def test_guesses_are_counted(keyed_settings: Settings, database: Database) -> None:
    for client in served(keyed_settings, requests_per_minute=3):
        statuses = [
            client.get("/v1/jobs", headers={"Authorization": f"Bearer guess-{n}"}).status_code
            for n in range(5)
        ]
        assert statuses == [401, 401, 401, 429, 429]
        assert client.get("/v1/jobs", headers=headers_of(database)).status_code == 200


def test_processes_count_together(broker_url: str) -> None:
    first, second = (RateLimiter(Settings(broker_url=broker_url)) for _ in range(2))
    caller = f"key:{time.monotonic_ns()}"
    for _ in range(6):
        first.hit(caller, 10)
    assert second.hit(caller, 10).left == 9
    first.share()
    second.share()
    assert second.hit(caller, 10).left == 2
    second.share()
    # Whoever has counted nothing has nothing to share, and learns with its next request.
    assert first.hit(caller, 10).left == 3
    first.share()
    assert first.hit(caller, 10).left == 0


def test_counts_are_shared_in_the_background(
    broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limit, "SHARE_EVERY_S", 0.02)
    limiters = [RateLimiter(Settings(broker_url=broker_url)) for _ in range(2)]
    caller = f"key:{time.monotonic_ns()}"
    for limiter in limiters:
        limiter.start()
    try:
        for _ in range(5):
            limiters[0].hit(caller, 1000)
        # Each look counts as well, and only the other's five can make more of them.
        looks = 0

        def has_heard() -> bool:
            nonlocal looks
            looks += 1
            return limiters[1].hit(caller, 1000).left <= 1000 - looks - 5

        eventually(has_heard)
    finally:
        for limiter in limiters:
            limiter.stop()


def test_dead_or_hanging_broker_holds_no_request(short_dir: Path) -> None:
    process, url = start_broker(short_dir / f"limits-{time.monotonic_ns()}.sock")
    try:
        limiter = RateLimiter(Settings(broker_url=url, broker_timeout_s=5))
        limiter.hit("a", 10)
        limiter.share()
        os.kill(process.pid, signal.SIGSTOP)
        began = time.monotonic()
        assert limiter.hit("a", 10).left == 8
        assert time.monotonic() - began < 2
    finally:
        process.kill()
        process.wait()
    with pytest.raises((RedisError, OSError)):
        limiter.share()
    # What could not be shared is kept for when the broker is back.
    assert limiter._counts["a"].unshared == 1
    assert limiter.hit("a", 10).left == 7


def test_tenant_may_queue_so_many(
    keyed_settings: Settings, database: Database, attempts: Attempts
) -> None:
    Tenants(database).change("a test", "small", {"max_queued": 2})
    headers, others = headers_of(database, tenant="small"), headers_of(database, tenant="large")

    def post(client: TestClient, script: str, who: dict[str, str] = headers) -> int:
        return client.post(ADDRESS, json={"script": script}, headers=who).status_code

    for client in served(keyed_settings, max_queued_per_tenant=3):
        assert [post(client, f"small-{n}") for n in range(2)] == [202, 202]
        refused = client.post(ADDRESS, json={"script": "small-3"}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_queued")
        assert int(refused.headers["retry-after"]) > 0
        assert len(client.get("/v1/jobs", headers=headers).json()["jobs"]) == 2
        # Joining takes no place in the queue, nor does an answer from the store.
        assert post(client, "small-1") == 202
        assert [post(client, f"large-{n}", others) for n in range(4)] == [202, 202, 202, 429]
        claim(attempts, database)
        assert post(client, "large-9", others) == 202


def test_batch_is_queued_whole_or_not_at_all(keyed_settings: Settings, database: Database) -> None:
    headers = headers_of(database)
    requests = [{"kind": "pipeline", "request": {"script": f"batched-{n}"}} for n in range(3)]
    for client in served(keyed_settings, max_queued_per_tenant=2):
        refused = client.post(BATCH, json={"requests": requests}, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_queued")
        assert client.get("/v1/jobs", headers=headers).json()["jobs"] == []
        taken = client.post(BATCH, json={"requests": requests[:2]}, headers=headers)
        assert taken.status_code == 202


def test_answers_from_the_store_need_no_place(
    keyed_settings: Settings, database: Database, attempts: Attempts
) -> None:
    headers = headers_of(database, Scope.SUBMIT)
    for client in served(keyed_settings, max_queued_per_tenant=1):
        for script, expected in (("first", 202), ("first", 202)):
            answer = client.post(ADDRESS, json={"script": script}, headers=headers)
            assert answer.status_code == expected
        finish(attempts, database)
        assert client.post(ADDRESS, json={"script": "second"}, headers=headers).status_code == 202
        assert client.post(ADDRESS, json={"script": "first"}, headers=headers).status_code == 200
        assert client.post(ADDRESS, json={"script": "third"}, headers=headers).status_code == 429


def test_batches_at_once_take_no_more_places_than_there_are(
    keyed_settings: Settings, database: Database
) -> None:
    headers = headers_of(database)

    def post(client: TestClient, number: int) -> int:
        requests = [
            {"kind": "pipeline", "request": {"script": f"at-once-{number}-{n}"}} for n in range(20)
        ]
        return client.post(BATCH, json={"requests": requests}, headers=headers).status_code

    for client in served(keyed_settings, max_queued_per_tenant=30):
        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(partial(post, client), range(8)))
        assert sorted(statuses) == [202] + [429] * 7
        with database.reading() as session:
            assert TenantRepository(session).queued("default") == 20
