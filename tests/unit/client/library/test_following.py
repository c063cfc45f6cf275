"""How a job is followed: by its stream of events, else by polls, until its end or a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from client.errors import ApiError, ServiceUnreachable, WaitTimeout
from client.library import following, requests
from client.library.async_service import AsyncService
from client.library.following import Deadline, Listen, Next, Send, Sleep, Tell, follow_job
from client.library.retries import NO_RETRIES
from client.library.service import Service
from tests.unit.client.fake_service import VERSION, FakeService, event_stream, job, problem

JOB, EVENTS = "/v1/jobs/j1", "/v1/jobs/j1/events"
RUNNING, DONE = job("running"), job("succeeded")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "FIRST_POLL_S", 0.0)


class Clock:
    """Time that passes with each look at it."""

    def __init__(self, step_s: float) -> None:
        self.now, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now += self.step_s
        return self.now


def states(service: FakeService, timeout_s: float | None = None) -> list[str]:
    """What is told, by both clients alike."""

    async def asynchronously() -> list[str]:
        transport = httpx.MockTransport(service.transport.handler)
        async with AsyncService(transport=transport, retries=NO_RETRIES) as client:
            return [status["state"] async for status in client.follow("j1", timeout_s)]

    answers = {key: list(queued) for key, queued in service._answers.items()}
    with Service(transport=service.transport, retries=NO_RETRIES) as client:
        told = [status["state"] for status in client.follow("j1", timeout_s)]
    asked = [(request.method, request.url.path) for request in service.requests]
    service.requests.clear()
    service._answers = answers
    assert asyncio.run(asynchronously()) == told
    assert [(request.method, request.url.path) for request in service.requests] == asked
    return told


def test_a_stream_is_followed_to_its_end() -> None:
    service = FakeService()
    step = ("progress", "1-0-", {"seq": 0})
    service.streams(
        EVENTS, ("state", "1-0-a", RUNNING), step, ("state", "2-0-b", DONE), ("end", "2-0-end", {})
    )
    assert states(service) == ["running", "succeeded"]
    assert [request.url.path for request in service.requests] == [EVENTS]
    assert service.requests[0].headers["accept"] == "text/event-stream"


def test_a_stream_that_was_cut_off_goes_on_after_its_last_event() -> None:
    service = FakeService()
    service.streams(EVENTS, ("state", "1-0-a", RUNNING))
    service.streams(EVENTS, ("state", "3-0-b", RUNNING), ("reconnect", "3-0-b", {"reason": "x"}))
    service.streams(EVENTS, ("state", "4-0-c", DONE))
    service.on("GET", JOB, RUNNING)
    assert states(service) == ["running", "running", "succeeded"]
    streams = [request for request in service.requests if request.url.path == EVENTS]
    last = [request.headers.get("last-event-id") for request in streams]
    assert last == [None, "1-0-a", "3-0-b"]


def test_the_end_is_seen_where_a_stream_ends_before_it_says_so() -> None:
    service = FakeService()
    service.streams(EVENTS)
    service.on("GET", JOB, DONE)
    assert states(service) == ["succeeded"]
    assert [request.url.path for request in service.requests] == [EVENTS, JOB]


@pytest.mark.parametrize("events", [(), (("state", "1-0-a", RUNNING),)])
def test_streams_that_end_at_once_are_few_and_then_it_is_polled(
    monkeypatch: pytest.MonkeyPatch, events: tuple[tuple[str, str, Any], ...]
) -> None:
    monkeypatch.setattr(following, "FIRST_POLL_S", 0.001)
    service = FakeService()
    service.streams(EVENTS, *events)
    service.on("GET", JOB, *[RUNNING] * 9, DONE)
    told = states(service)
    assert told[0] == "running"
    assert told[-1] == "succeeded"
    paths = [request.url.path for request in service.requests]
    assert paths == [EVENTS, JOB] * 3 + [JOB] * 7


def test_pauses_grow_where_streams_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "FIRST_POLL_S", 0.1)
    steps = follow_job("j1", Deadline(None, Clock(step_s=0.0)))
    answer = httpx.Response(200, json=RUNNING, headers=VERSION)
    pauses: list[float] = []
    step = next(steps)
    while len(pauses) < 2:
        if isinstance(step, Sleep):
            pauses.append(step.seconds)
        step = steps.send(answer if isinstance(step, Send) else None)
    assert 0.2 <= pauses[0] <= 0.4 <= pauses[1] <= 0.8


def test_streams_that_last_are_followed_however_often_they_end() -> None:
    clock = Clock(step_s=0.0)
    steps = follow_job("j1", Deadline(None, clock))
    answer = httpx.Response(200, json=RUNNING, headers=VERSION)
    asked: list[type] = []
    step = next(steps)
    while len(asked) < 40:
        if isinstance(step, Listen | Send):
            asked.append(type(step))
        clock.now += 10.0 if isinstance(step, Next) else 0.0
        step = steps.send(answer if isinstance(step, Send) else None)
    assert asked == [Listen, Send] * 20


@pytest.mark.parametrize(
    "refusal",
    [
        httpx.Response(503, json=problem(503, "too_many_streams"), headers=VERSION),
        httpx.Response(429, json=problem(429, "too_many_streams"), headers=VERSION),
        httpx.Response(410, json=problem(410, "job_over"), headers=VERSION),
        httpx.Response(200, json=RUNNING, headers=VERSION),
        httpx.ReadTimeout("silent"),
    ],
)
def test_without_a_stream_it_is_polled(refusal: Any) -> None:
    service = FakeService()
    service.on("GET", EVENTS, refusal)
    service.on("GET", JOB, RUNNING, headers={"ETag": 'W/"a"', "Preference-Applied": "wait=20"})
    service.on("GET", JOB, httpx.Response(304, headers={**VERSION, "ETag": 'W/"a"'}))
    service.on("GET", JOB, DONE)
    assert states(service) == ["running", "succeeded"]
    polls = service.requests[1:]
    assert [poll.headers.get("if-none-match") for poll in polls] == [None, 'W/"a"', 'W/"a"']
    assert [poll.headers.get("prefer") for poll in polls] == [None, "wait=20", "wait=20"]


def test_a_job_that_is_not_there_is_told() -> None:
    service = FakeService()
    missing = problem(404, "job_not_found")
    service.on("GET", EVENTS, missing, status=404)
    service.on("GET", JOB, missing, status=404)
    with pytest.raises(ApiError, match="Refused"):
        states(service)


def test_a_service_that_restarts_is_waited_for() -> None:
    service = FakeService()
    away = httpx.Response(503, json=problem(503, "database_unavailable"), headers=VERSION)
    service.on("GET", EVENTS, httpx.ConnectError("refused"))
    service.on("GET", JOB, httpx.ConnectError("refused"), away, DONE)
    assert states(service) == ["succeeded"]


def test_a_service_that_stays_away_is_given_up_after_a_while() -> None:
    deadline = Deadline(None, Clock(step_s=5.0))
    steps = follow_job("j1", deadline)
    sent = 0

    def give_up() -> None:
        nonlocal sent
        gone = ServiceUnreachable("gone")
        step = next(steps)
        while True:
            sent += isinstance(step, Send)
            step = steps.send(gone if isinstance(step, Send | Listen) else None)

    with pytest.raises(ServiceUnreachable):
        give_up()
    assert 3 <= sent <= 8


def test_pauses_grow_where_polls_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "FIRST_POLL_S", 0.1)
    steps = follow_job("j1", Deadline(None))
    answer = httpx.Response(200, json=RUNNING, headers=VERSION)
    pauses: list[float] = []
    step = next(steps)
    while len(pauses) < 12:
        if isinstance(step, Sleep):
            pauses.append(step.seconds)
        replies: dict[type, Any] = {Listen: ServiceUnreachable("no stream"), Send: answer}
        step = steps.send(replies.get(type(step)))
    assert pauses[0] <= 0.125
    assert all(0.75 <= pause <= 1.25 for pause in pauses[-3:])


def test_a_short_wait_is_polled_to_the_second() -> None:
    clock = Clock(step_s=0.0)
    steps = follow_job("j1", Deadline(12.5, clock))
    first = next(steps)
    assert first == Send(requests.status("j1"))
    answer = httpx.Response(
        200, json=RUNNING, headers={"ETag": "a", "Preference-Applied": "wait=12"}
    )
    assert steps.send(answer) == Tell(RUNNING)
    assert isinstance(next(steps), Sleep)
    held = next(steps)
    assert isinstance(held, Send)
    assert held.call.headers["Prefer"] == "wait=12"
    clock.now = 12.6
    with pytest.raises(WaitTimeout, match="goes on"):
        steps.send(httpx.Response(304))


def test_a_stream_is_left_before_the_deadline() -> None:
    clock = Clock(step_s=0.0)
    steps = follow_job("j1", Deadline(100.0, clock))
    assert isinstance(next(steps), Listen)
    assert isinstance(steps.send(None), Next)
    clock.now = 80.0
    assert isinstance(steps.send(following.Event("comment")), Send)


def test_events_are_read_as_the_standard_says() -> None:
    from client.library.events import COMMENT, EventReader

    def read(text: str) -> Iterator[Any]:
        reader = EventReader()
        for line in text.split("\n"):
            event = reader.read(line)
            if event is not None:
                yield event.name, event.data, event.id

    assert list(read(':\nid:7\nevent: a\ndata: {"x":\ndata: 1}\n\ndata: {}\n\n')) == [
        (COMMENT, {}, None),
        ("a", {"x": 1}, "7"),
        ("", {}, "7"),
    ]
    assert list(read("data: no JSON\n\nid: 3\n\nevent: b\n\n")) == []
    assert list(read(event_stream([("b", "1", {"y": 2})])))[1:] == [("b", {"y": 2}, "1")]
