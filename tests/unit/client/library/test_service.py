"""The HTTP client: what it asks, and what becomes of refusals."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from client.errors import ApiError, InputError, ServiceUnreachable
from client.library.async_service import AsyncService
from client.library.retries import NO_RETRIES
from client.library.service import Service
from tests.unit.client.fake_service import FakeService, job, problem


def client_of(service: FakeService) -> Service:
    return Service("http://service", transport=service.transport, retries=NO_RETRIES)


def test_submit_posts_the_body() -> None:
    service = FakeService()
    service.on("POST", "/v1/pipeline-schedules", {"id": "j1"}, status=202)
    with client_of(service) as client:
        assert client.submit("pipeline", {"model": "gpt2"})["id"] == "j1"
        client.submit("pipeline", {}, fresh=True)
    assert service.body() == {"model": "gpt2"}
    assert "cache-control" not in service.requests[0].headers
    assert service.requests[1].headers["cache-control"] == "no-cache"


def test_sharding_plans_are_asked_for_at_their_own_address() -> None:
    service = FakeService()
    service.on("POST", "/v1/sharding-plans", {"id": "j1"}, status=202)
    with client_of(service) as client:
        assert client.submit("sharding", {"devices": 4}, fresh=True)["id"] == "j1"
    assert service.body() == {"devices": 4}
    assert service.requests[0].headers["cache-control"] == "no-cache"


def test_training_plans_are_asked_for_at_their_own_address() -> None:
    service = FakeService()
    service.on("POST", "/v1/training-plans", {"id": "j1"}, status=202)
    with client_of(service) as client:
        assert client.submit("training", {"model": "gpt2"}, fresh=True)["id"] == "j1"
    assert service.body() == {"model": "gpt2"}
    assert service.requests[0].headers["cache-control"] == "no-cache"


def test_estimates_are_asked_for_by_name() -> None:
    service = FakeService()
    service.on("POST", "/v1/step-time-estimates", {"step_time_ns": 5})
    with client_of(service) as client:
        assert client.estimate("step-time", {"model": "gpt2"}) == {"step_time_ns": 5}
    assert service.body() == {"model": "gpt2"}


def test_refusal_names_field_and_remedy() -> None:
    service = FakeService()
    refusal = problem(422, "invalid_request", "problem.stages.3.device", "is wrong.", "Give 0.")
    service.on("POST", "/v1/pipeline-schedules", refusal, status=422)
    with client_of(service) as client, pytest.raises(ApiError) as caught:
        client.submit("pipeline", {})
    error = caught.value
    assert (error.status, error.code) == (422, "invalid_request")
    assert (error.path, error.remedy) == ("problem.stages.3.device", "Give 0.")
    assert str(error) == "problem.stages.3.device: is wrong. Give 0."


def test_refusal_that_is_not_json_still_says_something() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(502, text="<html>"))
    with (
        Service("http://service", transport=transport, retries=NO_RETRIES) as client,
        pytest.raises(ApiError, match="Bad Gateway"),
    ):
        client.status("j1")


def test_no_service_is_an_error_of_its_own() -> None:
    service = FakeService()
    service.on("GET", "/v1/jobs/j1", httpx.ConnectError("refused"))
    with client_of(service) as client, pytest.raises(ServiceUnreachable, match="loadmaster serve"):
        client.status("j1")


def test_a_service_that_is_slow_is_not_said_to_be_absent() -> None:
    service = FakeService()
    service.on("GET", "/v1/jobs/j1", httpx.ReadTimeout("timed out"))
    with client_of(service) as client, pytest.raises(ServiceUnreachable, match="in time") as said:
        client.status("j1")
    assert "loadmaster serve" not in str(said.value)


def test_something_else_than_loadmaster_is_recognised() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, text="hello"))
    with (
        Service("http://service", transport=transport, retries=NO_RETRIES) as client,
        pytest.raises(ServiceUnreachable, match="is it a Loadmaster service"),
    ):
        client.status("j1")


def test_address_needs_a_scheme() -> None:
    with pytest.raises(InputError, match="http://HOST:PORT"):
        Service("service:8400")


def test_job_ids_cannot_leave_their_path() -> None:
    service = FakeService()
    service.on("GET", "/v1/jobs/../jobs?x", job("queued"))
    with client_of(service) as client:
        client.status("../jobs?x")
    assert service.requests[0].url.raw_path == b"/v1/jobs/..%2Fjobs%3Fx"


def test_jobs_follow_pages_up_to_the_limit() -> None:
    service = FakeService()
    service.on(
        "GET",
        "/v1/jobs",
        {"jobs": [job("queued", id="a"), job("queued", id="b")], "next_cursor": "c"},
        {"jobs": [job("queued", id="c"), job("queued", id="d")], "next_cursor": "d"},
    )
    with client_of(service) as client:
        found = [entry["id"] for entry in client.jobs(limit=3, state="queued")]
    assert found == ["a", "b", "c"]
    assert dict(service.requests[1].url.params) == {"limit": "1", "state": "queued", "cursor": "c"}


def test_jobs_end_with_the_last_page() -> None:
    service = FakeService()
    service.on("GET", "/v1/jobs", {"jobs": [job("queued")], "next_cursor": None})
    with client_of(service) as client:
        assert len(list(client.jobs(limit=5))) == 1


def test_what_is_closed_says_so() -> None:
    transport = FakeService().transport
    service = Service(transport=transport)
    service.close()
    for ask in (lambda: service.status("j1"), lambda: list(service.follow("j1"))):
        with pytest.raises(InputError, match=r"^planner: is closed"):
            ask()

    async def asynchronously() -> None:
        service = AsyncService(transport=httpx.MockTransport(transport.handler))
        await service.aclose()
        with pytest.raises(InputError, match=r"^planner: is closed"):
            await service.status("j1")
        with pytest.raises(InputError, match=r"^planner: is closed"):
            _ = [status async for status in service.follow("j1")]

    asyncio.run(asynchronously())
