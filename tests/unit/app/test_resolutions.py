"""The memory of requests that were resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from app.database import Database
from app.errors import LimitExceeded
from app.services.calibrations.use import CalibrationsInUse
from app.services.limits import PipelineLimits
from app.services.plan_requests import PlanRequests
from app.services.resolutions import Resolution, Resolutions, json_text, key_of
from app.services.submission import Submission
from app.services.webhooks.targets import WebhookTargets
from app.settings import Settings
from planner.errors import SpecError
from tests.integration.fakes import FakeRequest, resolve_fake


def resolution(script: str) -> Resolution:
    return Resolution.of(resolve_fake({"script": script}))


def test_the_oldest_is_forgotten_when_the_memory_is_full() -> None:
    one, two, three = (resolution(script) for script in ("one", "two", "six"))
    memory = Resolutions(memory_bytes=2 * one.bytes)
    for key, entry in ((b"1", one), (b"2", two)):
        memory.put(key, entry)
    assert memory.get(b"1") is one
    memory.put(b"3", three)
    assert (memory.get(b"1"), memory.get(b"2"), memory.get(b"3")) == (one, None, three)


def test_what_is_larger_than_the_memory_is_not_kept() -> None:
    memory = Resolutions(memory_bytes=10)
    memory.put(b"1", resolution("one"))
    assert memory.get(b"1") is None
    memory.put(b"1", resolution("one"))
    assert memory._bytes == 0


def test_putting_twice_counts_once() -> None:
    one = resolution("one")
    memory = Resolutions(memory_bytes=one.bytes)
    memory.put(b"1", one)
    memory.put(b"1", replace(one))
    assert memory.get(b"1") is one


@pytest.mark.parametrize("other", [{"a": 1.0}, {"a": True}, {"a": "1"}, {"a": 1, "b": None}, {}])
def test_bodies_that_differ_have_other_keys(other: dict[str, Any]) -> None:
    assert key_of(json_text({"a": 1})) == key_of(json_text({"a": 1}))
    assert key_of(json_text({"a": 1})) != key_of(json_text(other))


def test_a_body_is_resolved_once_and_a_fault_is_found_each_time() -> None:
    resolved: list[Mapping[str, Any]] = []

    def resolve(body: Mapping[str, Any]) -> FakeRequest:
        resolved.append(body)
        if body["script"] == "fault":
            raise SpecError(("script",), "is at fault.", "Change it.")
        return resolve_fake(body)

    settings = Settings(max_time_limit_s=100)
    plans: PlanRequests[FakeRequest] = PlanRequests(
        "pipeline",
        cast(Submission, None),
        resolve,
        PipelineLimits(settings),
        WebhookTargets(settings),
        CalibrationsInUse(cast(Database, None)),
    )
    first = plans.read("default", {"script": "a", "name": "one"})
    again = plans.read("default", {"name": "two", "script": "a", "tags": ["x"]})
    assert again.resolved is first.resolved
    assert (first.options.name, again.options.name, again.options.tags) == ("one", "two", ("x",))
    assert resolved == [{"script": "a"}]
    for _ in range(2):
        with pytest.raises(SpecError):
            plans.read("default", {"script": "fault"})
    for _ in range(2):
        with pytest.raises(LimitExceeded):
            plans.read("default", {"script": "a", "search_iterations": 1, "time_limit_s": 101})
    assert len(resolved) == 5
    assert plans.read("default", {"script": "b"}).resolved is not first.resolved
