"""Nothing of one tenant can be seen, stopped, listed or inferred by another, on any route.

The routes come from the OpenAPI document, and each needs a check here: a new route fails
`test_every_route_has_a_check` until it has one. In each, Ann's tenant looks for what Bob's has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import httpx2
import pytest
from starlette.testclient import TestClient

import app.services.events
from app.callers import Scope
from app.database import Database
from app.main import create_app
from app.models import CalibrationVersion
from app.services.attempts import Attempts
from app.services.tenants import Tenants
from app.settings import Settings
from tests.integration.fakes import resolve_fake, resolve_fake_sharding, resolve_fake_training
from tests.integration.following import keeper_of, look
from tests.integration.helpers import (
    ADDRESS,
    SHARDING_ADDRESS,
    TRAINING_ADDRESS,
    finish,
    newest_solve_id,
    solve_row,
)
from tests.integration.keys import headers_of

Headers = dict[str, str]
MISSING = "00000000-0000-4000-8000-000000000000"
BATCHES = "/v1/batches"
RUNS = "/v1/runs"
CALIBRATIONS = "/v1/calibrations"
SECRETS = ("bobs-name", "bobs-run", "bobs-tag", "bobs-batch", "bobs.example", "bobs log line")


@dataclass(frozen=True)
class World:
    """A service with two tenants. Bob has a job that is over, one that waits, a batch and a run."""

    client: TestClient
    database: Database
    attempts: Attempts
    ann: Headers
    bob: Headers
    finished: str
    waiting: str
    batch: str
    run: str

    def get(self, who: Headers, path: str) -> httpx2.Response:
        return self.client.get(path, headers=who)

    def post(self, who: Headers, address: str, script: str, **more: Any) -> dict[str, Any]:
        headers = {**who, **more.pop("headers", {})}
        body = batch_of(script) if address == BATCHES else {"script": script}
        response = self.client.post(address, json={**body, **more}, headers=headers)
        assert response.status_code in (200, 201, 202), response.text
        answer: dict[str, Any] = response.json()
        return answer

    def snapshot(self) -> list[Any]:
        """What Bob sees of his own."""
        paths = (
            f"/v1/jobs/{self.finished}",
            f"/v1/jobs/{self.waiting}",
            f"{BATCHES}/{self.batch}",
            f"{RUNS}/{self.run}",
            f"{RUNS}/{self.run}/plan/1",
        )
        return [self.get(self.bob, path).json() for path in paths]

    def ids_of_bob(self) -> list[str]:
        jobs = self.get(self.bob, "/v1/jobs?limit=200").json()["jobs"]
        return [job["id"] for job in jobs] + [self.batch, self.run]

    def assert_nothing_of_bob_in(self, text: str) -> None:
        for secret in (*SECRETS, *self.ids_of_bob()):
            assert secret not in text


def batch_of(script: str) -> dict[str, Any]:
    body = {"script": script}
    return {"requests": [{"kind": "pipeline", "request": body}]}


@pytest.fixture
def world(keyed_settings: Settings, database: Database, attempts: Attempts) -> Any:
    settings = keyed_settings.model_copy(update={"webhook_allow_private": True})
    api = create_app(settings, resolve_fake, resolve_fake_sharding, resolve_fake_training)
    with TestClient(api, raise_server_exceptions=False) as client:
        scopes = (Scope.READ, Scope.SUBMIT, Scope.ADMIN)
        ann = headers_of(database, *scopes, tenant="ann")
        bob = headers_of(database, *scopes, tenant="bob")
        world = World(client, database, attempts, ann, bob, "", "", "", "")
        labels = {"name": "bobs-name", "tags": ["bobs-tag"]}
        webhook = {"url": "https://bobs.example/hook", "secret": "a secret of sixteen or more"}
        finished = world.post(bob, ADDRESS, "bobs-finished", **labels)["id"]
        finish(attempts, database)
        waiting = world.post(bob, ADDRESS, "bobs-waiting", **labels, webhook=webhook)["id"]
        batch = world.post(bob, BATCHES, "bobs-batched", name="bobs-batch")["id"]
        # The first plan of his run is stored.
        run = world.post(bob, RUNS, "bobs-finished", name="bobs-run")["id"]
        look(database, keeper_of(database, settings))
        assert world.get(bob, f"{RUNS}/{run}/plan/1").status_code == 200
        report = {"iteration": 1, "stages": [{"stage": 0, "forward_ns": 3}]}
        reported = client.post(f"{RUNS}/{run}/telemetry", json=report, headers=bob)
        assert reported.status_code == 200
        yield World(client, database, attempts, ann, bob, finished, waiting, batch, run)


CHECKS: dict[tuple[str, str], Callable[[World], None]] = {}


def isolates(
    method: str, *paths: str
) -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    """This is the check of the method at these paths."""

    def register(check: Callable[[World], None]) -> Callable[[World], None]:
        for path in paths:
            assert (method, path) not in CHECKS
            CHECKS[method, path] = check
        return check

    return register


def isolates_by_id(
    method: str,
    path: str,
    *ids: Callable[[World], str],
    query: str = "",
    body: Any = None,
    **headers: str,
) -> None:
    """The check of routes that name a thing by its id: somebody else's is answered like none."""

    def check(world: World) -> None:
        before = world.snapshot()
        for of in ids:
            foreign, missing = (
                world.client.request(
                    method,
                    re.sub(r"\{\w+_id\}", one, path).replace("{version}", "1") + query,
                    headers={**world.ann, **headers},
                    json=body,
                )
                for one in (of(world), MISSING)
            )
            assert foreign.status_code == missing.status_code == 404
            assert told(foreign).replace(of(world), MISSING) == told(missing)
            assert sorted(foreign.headers) == sorted(missing.headers)
        assert world.snapshot() == before

    CHECKS[method, path] = (
        check if (method, path) not in CHECKS else both(CHECKS[method, path], check)
    )


def told(response: httpx2.Response) -> str:
    """The body without what differs between any two requests."""
    document = response.json()
    document.pop("request_id", None)
    return str(document)


def both(first: Callable[[World], None], second: Callable[[World], None]) -> Any:
    def check(world: World) -> None:
        first(world)
        second(world)

    return check


def bobs_jobs(world: World) -> str:
    return world.waiting


PARTS = ("request", "result", "timeline", "exports", "progress", "log", "webhooks", "events")
JOBS: tuple[Callable[[World], str], ...] = (bobs_jobs, lambda world: world.finished)

for _part in ("", *(f"/{part}" for part in PARTS)):
    isolates_by_id("GET", f"/v1/jobs/{{job_id}}{_part}", *JOBS)
isolates_by_id("GET", "/v1/jobs/{job_id}", *JOBS, prefer="wait=1")
isolates_by_id("GET", "/v1/jobs/{job_id}/result", *JOBS, query="?fields=certificate&form=columnar")
isolates_by_id("GET", "/v1/jobs/{job_id}/timeline", *JOBS, query="?schedule=1F1B")
isolates_by_id("GET", "/v1/jobs/{job_id}/events", *JOBS, query="?log=true")
isolates_by_id("GET", "/v1/jobs/{job_id}/export/{format}", *JOBS)
isolates_by_id("DELETE", "/v1/jobs/{job_id}", *JOBS)
isolates_by_id("DELETE", "/v1/jobs/{job_id}", *JOBS, query="?purge=true")
isolates_by_id("GET", f"{BATCHES}/{{batch_id}}", lambda world: world.batch)
isolates_by_id("DELETE", f"{BATCHES}/{{batch_id}}", lambda world: world.batch)


def bobs_run(world: World) -> str:
    return world.run


for _part in (
    "",
    "/plan",
    "/plan/{version}",
    "/plan/{version}/timeline",
    "/diagnosis",
    "/proposals",
):
    isolates_by_id("GET", f"{RUNS}/{{run_id}}{_part}", bobs_run)
isolates_by_id("GET", f"{RUNS}/{{run_id}}/plan", bobs_run, query="?brief=true", prefer="wait=1")
isolates_by_id("PATCH", f"{RUNS}/{{run_id}}", bobs_run, body={"name": "anns"})
isolates_by_id("DELETE", f"{RUNS}/{{run_id}}", bobs_run)
isolates_by_id("DELETE", f"{RUNS}/{{run_id}}", bobs_run, query="?purge=true")
isolates_by_id(
    "POST",
    f"{RUNS}/{{run_id}}/telemetry",
    bobs_run,
    body={"iteration": 2, "stages": [{"stage": 0, "forward_ns": 9}]},
)
isolates_by_id(
    "POST",
    f"{RUNS}/{{run_id}}/plan/{{version}}/ack",
    bobs_run,
    body={"rank": 0, "iteration": 2},
)


@isolates("POST", RUNS)
def starting_runs(world: World) -> None:
    same = {"Idempotency-Key": "a run"}
    bobs = world.post(world.bob, RUNS, "same", name="bobs-run", headers=same)["id"]
    anns = world.post(world.ann, RUNS, "other", headers=same)
    assert anns["id"] != bobs
    world.assert_nothing_of_bob_in(str(anns))
    # She follows as many as she may, however many Bob follows.
    own = world.post(world.ann, RUNS, "same")
    world.assert_nothing_of_bob_in(world.get(world.ann, f"{RUNS}/{own['id']}").text)


@isolates("GET", RUNS)
def listing_runs(world: World) -> None:
    assert world.get(world.ann, RUNS).json() == {"runs": [], "next_cursor": None}
    own = world.post(world.ann, RUNS, "anns")["id"]
    world.post(world.bob, RUNS, "bobs-more", name="bobs-run")
    cursor = world.get(world.bob, f"{RUNS}?limit=1").json()["next_cursor"]
    assert cursor
    for query in ("", "?state=active", f"?cursor={cursor}"):
        page = world.get(world.ann, f"{RUNS}{query}")
        assert {run["id"] for run in page.json()["runs"]} <= {own}
        world.assert_nothing_of_bob_in(page.text)


def calibrate(world: World) -> None:
    """Bob has a calibration."""
    with world.database.writing() as session:
        columns = {"id": MISSING, "tenant": "bob", "gpu": "bobs-run", "version": 1}
        session.add(CalibrationVersion(**columns, document="{}"))


@isolates("POST", CALIBRATIONS)
def fitting_calibrations(world: World) -> None:
    foreign, missing = (
        world.client.post(CALIBRATIONS, json={"runs": [run]}, headers=world.ann)
        for run in (world.run, MISSING)
    )
    assert foreign.status_code == missing.status_code == 422
    assert told(foreign).replace(world.run, MISSING) == told(missing)
    fitted = world.client.post(CALIBRATIONS, json={}, headers=world.ann)
    assert fitted.status_code == 422
    world.assert_nothing_of_bob_in(fitted.text)


@isolates("GET", CALIBRATIONS)
def listing_calibrations(world: World) -> None:
    calibrate(world)
    assert world.get(world.ann, CALIBRATIONS).json() == {"calibrations": []}


@isolates("GET", f"{CALIBRATIONS}/{{gpu}}", f"{CALIBRATIONS}/{{gpu}}/{{version}}")
def reading_calibrations(world: World) -> None:
    calibrate(world)
    for end in ("", "/1"):
        foreign, missing = (
            world.get(world.ann, f"{CALIBRATIONS}/{gpu}{end}") for gpu in ("bobs-run", "nobodys")
        )
        assert foreign.status_code == missing.status_code == 404
        assert told(foreign).replace("bobs-run", "nobodys") == told(missing)


def isolates_posts(address: str) -> None:
    """The check of a route that takes a request for a plan."""

    @isolates("POST", address)
    def posting(world: World) -> None:
        same = {"Idempotency-Key": "the same"}
        bobs = world.post(world.bob, address, "same", name="bobs-name", headers=same)["id"]
        # Bob's key replays nothing for Ann, nor is it in the way of what she asks for.
        anns = world.post(world.ann, address, "other", headers=same)
        assert anns["id"] != bobs
        world.assert_nothing_of_bob_in(str(anns))
        world.assert_nothing_of_bob_in(str(world.post(world.ann, address, "same")))
        # Her place in the queue and what she may queue are hers, however much Bob has queued.
        Tenants(world.database).change("a test", "ann", {"max_queued": 2})
        for number in range(5):
            world.post(world.bob, address, f"bobs-{number}")
        assert world.post(world.ann, address, "anns")["queue_position"] <= 3


for _address in (ADDRESS, SHARDING_ADDRESS, TRAINING_ADDRESS):
    isolates_posts(_address)


@isolates("POST", BATCHES)
def batching(world: World) -> None:
    same = {"Idempotency-Key": "a batch"}
    bobs = world.post(world.bob, BATCHES, "same", name="bobs-batch", headers=same)
    anns = world.post(world.ann, BATCHES, "other", headers=same)
    assert anns["id"] != bobs["id"]
    world.assert_nothing_of_bob_in(str(anns))
    anns = world.post(world.ann, BATCHES, "same")
    world.assert_nothing_of_bob_in(world.get(world.ann, f"{BATCHES}/{anns['id']}").text)


@isolates("GET", "/v1/jobs")
def listing(world: World) -> None:
    def ids(who: Headers, query: str = "") -> list[str]:
        return [job["id"] for job in world.get(who, f"/v1/jobs?limit=200{query}").json()["jobs"]]

    assert ids(world.ann) == []
    own = [world.post(world.ann, ADDRESS, f"anns-{number}")["id"] for number in range(3)]
    assert sorted(ids(world.ann)) == sorted(own)
    assert set(ids(world.ann, "&state=succeeded")) == set()
    for query in ("&name=bobs-name", "&tag=bobs-tag"):
        assert ids(world.ann, query) == []
        assert len(ids(world.bob, query)) == 2
    page = world.get(world.bob, "/v1/jobs?limit=1").json()
    assert page["next_cursor"]
    assert set(ids(world.ann, f"&cursor={page['next_cursor']}")) <= set(own)
    cursor = world.get(world.ann, "/v1/jobs?limit=1").json()["next_cursor"]
    assert len(ids(world.ann, f"&cursor={cursor}")) == 2


@isolates("GET", "/v1/events")
def following_all(world: World) -> None:
    """What was made a moment ago is told at the beginning."""
    own = world.post(world.ann, ADDRESS, "anns")["id"]
    with patch.object(app.services.events, "LONGEST_STREAM_S", 3.0):
        anns, bobs = (world.get(who, "/v1/events").text for who in (world.ann, world.bob))
    assert own in anns
    assert own not in bobs
    assert world.waiting in bobs
    world.assert_nothing_of_bob_in(anns)


@isolates("GET", BATCHES)
def listing_batches(world: World) -> None:
    assert world.get(world.ann, BATCHES).json() == {"batches": [], "next_cursor": None}
    own = world.post(world.ann, BATCHES, "anns", name="anns-batch")["id"]
    world.post(world.bob, BATCHES, "bobs-more", name="bobs-batch")
    cursor = world.get(world.bob, f"{BATCHES}?limit=1").json()["next_cursor"]
    assert cursor
    for query in ("", f"?cursor={cursor}"):
        page = world.get(world.ann, f"{BATCHES}{query}")
        assert {batch["id"] for batch in page.json()["batches"]} <= {own}
        world.assert_nothing_of_bob_in(page.text)


@isolates("GET", "/v1/audit")
def audit_log(world: World) -> None:
    for script in ("bobs-1", "bobs-2"):
        job_id = world.post(world.bob, ADDRESS, script)["id"]
        world.client.delete(f"/v1/jobs/{job_id}", headers=world.bob)
    before = world.get(world.ann, "/v1/audit").json()
    assert [entry["action"] for entry in before["entries"]] == ["key created"]
    page = world.get(world.bob, "/v1/audit?limit=1").json()
    assert page["entries"][0]["action"] == "job cancelled"
    stolen = world.get(world.ann, f"/v1/audit?cursor={page['next_cursor']}")
    world.assert_nothing_of_bob_in(stolen.text)
    assert {entry["action"] for entry in stolen.json()["entries"]} <= {"key created"}


@isolates("GET", "/metrics")
def metrics(world: World) -> None:
    """They are of all tenants, so that no tenant's key opens them, not even an admin's."""
    assert world.get(world.ann, "/metrics").status_code == 403


@isolates("GET", "/healthz", "/readyz", "/v1/examples", "/v1/exports", "/v1/presets")
def same_for_all(world: World) -> None:
    for path in ("/healthz", "/readyz", "/v1/examples", "/v1/exports", "/v1/presets"):
        before = world.get(world.ann, path).json()
        world.post(world.bob, ADDRESS, f"bobs-before-{path}")
        assert world.get(world.ann, path).json() == before


ESTIMATES = (
    "memory",
    "step-time",
    "recomputation",
    "scaling",
    "offload",
    "communication",
    "checkpoints",
)


@isolates("POST", *(f"/v1/{name}-estimates" for name in ESTIMATES))
def estimates(world: World) -> None:
    body = {"model": "GPT-2", "cluster": "4xA100-40GB", "training": {"micro_batches": 4}}
    for name in ESTIMATES:
        answers = [
            world.client.post(f"/v1/{name}-estimates", json=body, headers=who).json()
            for who in (world.ann, world.bob, world.ann)
        ]
        assert answers[0] == answers[1] == answers[2]


@isolates("POST", "/v1/diagnoses")
def diagnoses(world: World) -> None:
    body = {"symptoms": ["nan_loss"], "orders": [["0F0", "0B0"]], "plan_versions": [1, 2]}
    answers = [
        world.client.post("/v1/diagnoses", json=body, headers=who).json()
        for who in (world.ann, world.bob, world.ann)
    ]
    assert answers[0]["causes"]
    assert answers[0] == answers[1] == answers[2]


def test_every_route_has_a_check(keyed_client: TestClient) -> None:
    paths = keyed_client.get("/openapi.json").json()["paths"]
    routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert sorted(routes - set(CHECKS)) == [], "write a check for these routes"
    assert sorted(set(CHECKS) - routes) == [], "these checks are of routes that are no more"


@pytest.mark.parametrize("route", sorted(CHECKS), ids=" ".join)
def test_nothing_of_another_tenant(world: World, route: tuple[str, str]) -> None:
    CHECKS[route](world)


def test_checks_would_see_what_is_bobs(world: World) -> None:
    """The same requests by Bob find what they must not find for Ann."""
    for path in (f"/v1/jobs/{world.waiting}", f"/v1/jobs/{world.finished}/result"):
        assert world.get(world.bob, path).status_code == 200
    assert world.get(world.bob, f"{BATCHES}/{world.batch}").status_code == 200
    hooks = world.get(world.bob, f"/v1/jobs/{world.waiting}/webhooks").text
    assert "bobs.example" in hooks
    assert "bobs-tag" in world.get(world.bob, "/v1/jobs").text


def test_shared_answer_has_no_traces(world: World) -> None:
    answer = world.post(world.ann, ADDRESS, "bobs-finished")
    assert answer["cache"] == "hit"
    path = f"/v1/jobs/{answer['id']}"
    paths = ("", "/result", "/progress", "/log", "/webhooks")
    texts = [str(answer), *(world.get(world.ann, path + part).text for part in paths)]
    for text in texts:
        world.assert_nothing_of_bob_in(text)
    provenance = answer["result"]["provenance"]
    assert not provenance.get("worker")
    assert not provenance.get("started_from")
    assert world.get(world.ann, f"{path}/log").json()["lines"] == []
    bobs = world.get(world.bob, f"/v1/jobs/{world.finished}").json()
    anns = world.get(world.ann, path).json()
    assert anns["started_at"] is None or anns["started_at"] >= anns["created_at"]
    assert anns["created_at"] > bobs["created_at"]


def test_joined_solve_tells_nothing_of_who_made_it(world: World) -> None:
    answer = world.post(world.ann, ADDRESS, "bobs-waiting")
    assert answer["cache"] == "joined"
    path = f"/v1/jobs/{answer['id']}"
    for part in ("", "/progress", "/log", "/webhooks"):
        world.assert_nothing_of_bob_in(world.get(world.ann, path + part).text)
    # Her cancellation is hers alone.
    assert world.client.delete(path, headers=world.ann).json()["state"] == "cancelled"
    assert world.get(world.bob, f"/v1/jobs/{world.waiting}").json()["state"] == "queued"


@pytest.mark.parametrize("private", ["ann", "bob"])
def test_whoever_opts_out_shares_no_answer(world: World, private: str) -> None:
    Tenants(world.database).change("a test", private, {"shares_answers": False})
    world.post(world.bob, ADDRESS, "new")
    finish(world.attempts, world.database)
    assert world.post(world.bob, ADDRESS, "new")["cache"] == "hit"
    answer = world.post(world.ann, ADDRESS, "new")
    assert answer["cache"] == "miss"
    assert solve_row(world.database, newest_solve_id(world.database)).started_from is None


def test_no_solve_starts_from_another_tenants_plan(world: World) -> None:
    fresh = {"headers": {"Cache-Control": "no-cache"}}
    world.post(world.ann, ADDRESS, "bobs-finished", priority=7, **fresh)
    assert solve_row(world.database, newest_solve_id(world.database)).started_from is None
    assert world.post(world.ann, ADDRESS, "of the same shape")["cache"] == "miss"
    assert solve_row(world.database, newest_solve_id(world.database)).started_from is None


def test_start_names_no_job_of_another_tenant(world: World) -> None:
    """Also where the tenant's own job is gone and another tenant's still has its answer."""
    own = world.post(world.ann, ADDRESS, "anns")["id"]
    finish(world.attempts, world.database)
    assert world.post(world.bob, ADDRESS, "anns")["cache"] == "hit"
    assert world.client.delete(f"/v1/jobs/{own}?purge=true", headers=world.ann).status_code == 204
    world.post(world.ann, ADDRESS, "anns later")
    start = solve_row(world.database, newest_solve_id(world.database)).started_from
    world.assert_nothing_of_bob_in(str(start))


def test_one_tenants_requests_do_not_use_up_anothers(world: World) -> None:
    Tenants(world.database).change("a test", "bob", {"requests_per_minute": 1})
    other = headers_of(world.database, Scope.READ, tenant="bob")
    statuses = [world.get(other, "/v1/jobs").status_code for _ in range(3)]
    assert 429 in statuses
    assert world.get(world.ann, "/v1/jobs").status_code == 200
