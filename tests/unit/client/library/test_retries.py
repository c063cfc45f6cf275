"""What is sent again, after how long, and what is not."""

from __future__ import annotations

import httpx
import pytest

from client.errors import ApiError, ServiceUnreachable
from client.library import service as service_module
from client.library.retries import NO_RETRIES, Retries
from client.library.service import Service
from tests.unit.client.fake_service import FakeService, job, problem

POST = ("POST", "/v1/pipeline-schedules")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited."""
    waited: list[float] = []
    monkeypatch.setattr(service_module.time, "sleep", waited.append)
    return waited


def service_of(fake: FakeService, retries: Retries | None = None) -> Service:
    return Service("http://service", transport=fake.transport, retries=retries)


def test_a_post_is_sent_again_under_the_same_key(pauses: list[float]) -> None:
    fake = FakeService()
    fake.on(*POST, httpx.ReadError("lost"), httpx.ConnectError("refused"), {"id": "j1"})
    assert service_of(fake).submit("pipeline", {"model": "gpt2"})["id"] == "j1"
    keys = {request.headers["idempotency-key"] for request in fake.requests}
    assert len(fake.requests) == 3
    assert len(keys) == 1
    service_of(fake).submit("pipeline", {"model": "gpt2"})
    assert fake.requests[-1].headers["idempotency-key"] not in keys
    assert len(pauses) == 2


def test_pauses_double_with_jitter_up_to_the_longest() -> None:
    for draw, share in ((0.0, 0.5), (1.0, 1.0)):
        retries = Retries(first_pause_s=1.0, longest_pause_s=5.0, draw=lambda draw=draw: draw)
        pauses = [retries.pause_s(number) for number in (1, 2, 3, 4, 1000)]
        assert pauses == [share * whole for whole in (1, 2, 4, 5, 5)]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_retry_after_is_honoured(pauses: list[float], status: int) -> None:
    fake = FakeService()
    busy = problem(status, "busy")
    fake.on("GET", "/v1/jobs/j1", busy, status=status, headers={"Retry-After": "7"})
    fake.on("GET", "/v1/jobs/j1", job("running"))
    assert service_of(fake).status("j1")["state"] == "running"
    assert pauses == [pytest.approx(7, abs=0.3)]
    assert pauses[0] >= 7


def test_what_asks_for_too_much_patience_is_told(pauses: list[float]) -> None:
    fake = FakeService()
    busy = problem(429, "too_many_queued")
    fake.on("GET", "/v1/jobs/j1", busy, status=429, headers={"Retry-After": "3600"})
    with pytest.raises(ApiError) as told:
        service_of(fake).status("j1")
    assert told.value.code == "too_many_queued"
    assert not pauses


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422, 500])
def test_other_refusals_are_told_at_once(pauses: list[float], status: int) -> None:
    fake = FakeService()
    fake.on("GET", "/v1/jobs/j1", problem(status, "no"), status=status)
    with pytest.raises(ApiError):
        service_of(fake).status("j1")
    assert len(fake.requests) == 1
    assert not pauses


def test_tries_end(pauses: list[float]) -> None:
    fake = FakeService()
    fake.on("GET", "/v1/jobs/j1", httpx.ConnectError("refused"))
    with pytest.raises(ServiceUnreachable):
        service_of(fake, Retries(tries=3)).status("j1")
    assert len(fake.requests) == 3
    with pytest.raises(ServiceUnreachable):
        service_of(fake, NO_RETRIES).status("j1")
    assert len(fake.requests) == 4
    assert len(pauses) == 2
