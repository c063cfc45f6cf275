"""What the verbs ask for, and of whom."""

from __future__ import annotations

import pytest

from client.errors import InputError
from client.library.connection import api_key_for, server_from
from client.library.planner import Planner
from client.library.retries import NO_RETRIES
from client.library.service import Service
from tests.unit.client.fake_service import FakeService, job


@pytest.fixture
def fake() -> FakeService:
    return FakeService()


@pytest.fixture
def planner(fake: FakeService) -> Planner:
    return Planner.over(Service(transport=fake.transport, retries=NO_RETRIES))


def test_parts_win_over_the_body(fake: FakeService, planner: Planner) -> None:
    fake.on("POST", "/v1/pipeline-schedules", job("queued"), status=202)
    body = {"model": "gpt2", "cluster": "8xH100", "solver": {"seed": 1}}
    asked = planner.pipeline_schedule(body, cluster="4xH100", name="mine", fresh=True)
    assert fake.body() == {
        "model": "gpt2",
        "cluster": "4xH100",
        "solver": {"seed": 1},
        "name": "mine",
    }
    assert fake.requests[0].headers["cache-control"] == "no-cache"
    assert (asked.id, asked.kind, asked.state) == ("j1", "pipeline", "queued")
    assert body["cluster"] == "8xH100"


def test_each_kind_has_its_address(fake: FakeService, planner: Planner) -> None:
    for path in ("/v1/sharding-plans", "/v1/training-plans"):
        fake.on("POST", path, job("queued"), status=202)
    fake.on("POST", "/v1/step-time-estimates", {"step_time_ns": 5, "warnings": ["w"]})
    assert planner.sharding_plan(transformer="GPT-2", devices=2).kind == "sharding"
    assert planner.training_plan(model="GPT-2", cluster="8xH100").kind == "training"
    estimate = planner.estimate("step-time", model="GPT-2")
    assert (estimate["step_time_ns"], estimate.warnings) == (5, ["w"])


def test_batches_have_what_is_given_only(fake: FakeService, planner: Planner) -> None:
    fake.on("POST", "/v1/batches", {"id": "b1"}, status=202)
    planner.batch([{"kind": "pipeline", "request": {"model": "gpt2"}}], priority=7)
    assert fake.body() == {
        "priority": 7,
        "requests": [{"kind": "pipeline", "request": {"model": "gpt2"}}],
    }


def test_jobs_are_filtered(fake: FakeService, planner: Planner) -> None:
    fake.on("GET", "/v1/jobs", {"jobs": [job("queued")], "next_cursor": None})
    assert [own.id for own in planner.jobs(kind="pipeline", tag="night")] == ["j1"]
    assert dict(fake.requests[0].url.params) == {"kind": "pipeline", "tag": "night", "limit": "20"}


def test_a_key_goes_to_its_own_server_only() -> None:
    environment = {"LOADMASTER_SERVER": "https://plans.example/", "LOADMASTER_API_KEY": "lm_k"}
    assert server_from(environment) == "https://plans.example/"
    assert api_key_for("https://plans.example", environment) == "lm_k"
    assert api_key_for("https://other.example", environment) is None
    assert api_key_for("http://127.0.0.1:8400", {"LOADMASTER_API_KEY": "lm_k"}) == "lm_k"
    assert api_key_for(server_from({}), {}) is None


@pytest.mark.parametrize("options", [{"solves_at_once": 0}, {"threads": 0}])
def test_a_local_planner_needs_something_to_solve_with(options: dict[str, int]) -> None:
    with pytest.raises(InputError, match="Give 1 or more"):
        Planner.local(**options)
