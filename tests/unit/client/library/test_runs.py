"""`Planner.runs` and `AsyncPlanner.runs`: what they ask, and the views that come back."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from client.errors import InputError
from client.library.async_service import AsyncService
from client.library.planner import Planner
from client.library.retries import NO_RETRIES
from client.library.runs import AsyncRuns, Runs
from client.library.service import Service
from tests.unit.client.fake_service import FakeService, problem

RUN = {"id": "r1", "state": "active", "running_version": 2, "newest_version": 3}
PLAN = {"version": 3, "state": "scheduled", "apply_at_iteration": 90, "schedule": {"ops": []}}
BASE = "/v1/runs/r1"


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def runs(service: FakeService) -> Runs:
    return Planner.over(Service(transport=service.transport, retries=NO_RETRIES)).runs


@pytest.fixture
def async_runs(service: FakeService) -> AsyncRuns:
    return AsyncRuns(AsyncService(transport=service.transport, retries=NO_RETRIES).ask)


def test_a_run_is_created_once_however_often_it_is_sent(service: FakeService, runs: Runs) -> None:
    service.on("POST", "/v1/runs", RUN, status=201)
    run = runs.create({"name": "a"}, plan={"ops": []}, follow={"ranks": 4}, model="GPT-2")
    assert (run.id, run.state, run.running_version, run.newest_version) == ("r1", "active", 2, 3)
    assert service.body() == {
        "name": "a",
        "model": "GPT-2",
        "plan": {"ops": []},
        "follow": {"ranks": 4},
    }
    assert service.requests[0].headers["Idempotency-Key"]


def test_runs_are_listed_page_by_page(service: FakeService, runs: Runs) -> None:
    service.on("GET", "/v1/runs", {"runs": [RUN, RUN], "next_cursor": "c"}, {"runs": [RUN, RUN]})
    assert [run.id for run in runs.list(limit=3, state="active")] == ["r1"] * 3
    first, second = (dict(request.url.params) for request in service.requests)
    assert first == {"state": "active", "limit": "3"}
    assert second == {"state": "active", "limit": "1", "cursor": "c"}


def test_a_run_is_changed_stopped_and_forgotten(service: FakeService, runs: Runs) -> None:
    service.on("PATCH", BASE, RUN)
    service.on("DELETE", BASE, {**RUN, "state": "stopped"})
    service.on("DELETE", BASE, None, status=204)
    assert runs.change("r1", {"follow": {"min_gain": 0.1}}).id == "r1"
    assert service.body() == {"follow": {"min_gain": 0.1}}
    assert runs.stop("r1").state == "stopped"
    runs.purge("r1")
    assert service.requests[-1].url.params["purge"] == "true"


def test_the_newest_plan_may_not_be_there_yet(service: FakeService, runs: Runs) -> None:
    service.on("GET", f"{BASE}/plan", {"state": "running", "job_id": "j"}, status=202)
    service.on("GET", f"{BASE}/plan", PLAN)
    service.on("GET", f"{BASE}/plan/3", PLAN)
    assert runs.plan("r1") is None
    for plan in (runs.plan("r1"), runs.plan("r1", 3)):
        assert plan is not None
        assert (plan.version, plan.apply_at_iteration, plan.needs_restart) == (3, 90, False)


def test_advice_is_passed_on(service: FakeService, runs: Runs) -> None:
    service.on("GET", f"{BASE}/diagnosis", {"causes": []})
    service.on("GET", f"{BASE}/proposals", {"proposals": []})
    assert runs.diagnosis("r1") == {"causes": []}
    assert runs.proposals("r1") == {"proposals": []}


@pytest.mark.parametrize("run_id", ["", ".", ".."])
def test_no_id_is_an_error_here(run_id: str, runs: Runs) -> None:
    with pytest.raises(InputError, match="no run's"):
        runs.get(run_id)


def test_a_local_planner_keeps_none() -> None:
    with Planner.local() as planner, pytest.raises(InputError, match="Use a service"):
        planner.runs.get("r1")


def test_both_kinds_have_the_same_verbs() -> None:
    def verbs(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(verb).parameters)
            for name, verb in vars(kind).items()
            if not name.startswith("_")
        }

    assert verbs(Runs) == verbs(AsyncRuns)


def test_asynchronously_the_same(service: FakeService, async_runs: AsyncRuns) -> None:
    service.on("POST", "/v1/runs", RUN, status=201)
    service.on("GET", "/v1/runs", {"runs": [RUN, RUN], "next_cursor": "c"}, {"runs": [RUN]})
    service.on("GET", BASE, RUN)
    service.on("PATCH", BASE, RUN)
    service.on("DELETE", BASE, {**RUN, "state": "stopped"})
    service.on("DELETE", BASE, None, status=204)
    service.on("GET", f"{BASE}/plan", PLAN)
    service.on("GET", f"{BASE}/plan/3", PLAN)
    service.on("GET", f"{BASE}/diagnosis", {"causes": []})
    service.on("GET", f"{BASE}/proposals", {"proposals": []})

    async def use() -> list[Any]:
        runs = async_runs
        await_ids = [run.id async for run in runs.list(limit=3)]
        newest, third = await runs.plan("r1"), await runs.plan("r1", 3)
        assert newest is not None
        assert third is not None
        return [
            (await runs.create(model="GPT-2")).id,
            len(await_ids),
            (await runs.get("r1")).id,
            (await runs.change("r1", {"name": "b"})).id,
            newest.version,
            third.version,
            await runs.diagnosis("r1"),
            await runs.proposals("r1"),
            (await runs.stop("r1")).state,
            await runs.purge("r1"),
        ]

    expected = ["r1", 3, "r1", "r1", 3, 3, {"causes": []}, {"proposals": []}, "stopped", None]
    assert asyncio.run(use()) == expected


def test_a_refusal_names_field_and_remedy(service: FakeService, runs: Runs) -> None:
    refused = problem(422, "invalid", "follow.min_gain", "cannot be 2.", "Give less than 1.")
    service.on("POST", "/v1/runs", refused, status=422)
    with pytest.raises(Exception, match=r"follow\.min_gain: cannot be 2\. Give less than 1\."):
        runs.create(follow={"min_gain": 2})
