"""Sharding plans go through the same jobs, store and errors as pipeline schedules."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from starlette.testclient import TestClient

from app.database import Database
from app.main import create_app
from app.services.attempts import Attempts, Progress
from app.services.transitions import Answered, GivenBack, Overran
from app.settings import Settings
from tests.integration.fakes import (
    FAKE_SOLVER,
    INSTANCE,
    SHARDING_START,
    infeasible,
    resolve_fake,
    resolve_fake_sharding,
    sharded,
)
from tests.integration.helpers import (
    SHARDING_ADDRESS,
    claim,
    count_solves,
    finish,
    job,
    loads,
    newest_solve_id,
    only_solve,
    post,
    solve_row,
    supervise,
)


def shard(client: TestClient, script: Any = "answer", **more: Any) -> dict[str, Any]:
    """Post a request for a sharding plan and return the answer's body."""
    return post(client, script, address=SHARDING_ADDRESS, **more)


def test_a_plan_is_answered_at_once_the_second_time(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    first = shard(client, name="mine", tags=["x"])
    assert (first["state"], first["cache"]) == ("queued", "miss")
    assert shard(client)["cache"] == "joined"
    finish(attempts, database, Answered(sharded()))
    again = shard(client, time_limit_s=5)
    assert (again["state"], again["cache"]) == ("succeeded", "hit")
    assert again["result"]["instance"] == INSTANCE
    assert count_solves(database) == 1
    view = job(client, first["id"])
    assert (view["kind"], view["name"], view["tags"]) == ("sharding", "mine", ["x"])
    assert view["engine"] == "cbc"


def test_objective_and_bound_are_shown_in_whole_bytes(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = shard(client)["id"]
    order = claim(attempts, database)
    attempts.renew(
        order.fence, Progress(incumbent=SHARDING_START, objective=19.5, lower_bound=10.5)
    )
    view = job(client, job_id)
    assert (view["best_objective_bytes"], view["lower_bound_bytes"], view["gap"]) == (20, 10, 0.5)
    assert (view["best_makespan_ns"], view["lower_bound_ns"]) == (None, None)
    attempts.end(order.fence, Answered(sharded()), Progress())
    view = job(client, job_id)
    # Rounding 10.5 either way leaves no gap where none is.
    assert (view["best_objective_bytes"], view["lower_bound_bytes"], view["gap"]) == (11, 10, 0.0)
    schedule = job(client, post(client)["id"])
    assert (schedule["best_objective_bytes"], schedule["lower_bound_bytes"]) == (None, None)


def test_a_solve_starts_from_no_stored_plan_but_its_own(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    shard(client, time_limit_s=5)
    order = claim(attempts, database)
    found = Progress(incumbent=SHARDING_START, objective=12.0)
    attempts.end(order.fence, Answered(sharded(12.0, 10.0, False)), found)
    shard(client, time_limit_s=6)
    assert solve_row(database, newest_solve_id(database)).started_from is None
    order = claim(attempts, database)
    assert order.start is None
    attempts.end(order.fence, GivenBack(), found)
    resumed = claim(attempts, database).start
    assert resumed == {**SHARDING_START, "origin": {"kind": "earlier_attempt"}}


def test_the_kinds_do_not_answer_each_other(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    finish(attempts, database)
    sharding = shard(client)
    assert sharding["cache"] == "miss"
    listed = client.get("/v1/jobs?kind=sharding").json()["jobs"]
    assert [entry["id"] for entry in listed] == [sharding["id"]]


def test_no_cache_solves_afresh_and_a_named_engine_answers_for_itself(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    shard(client)
    finish(attempts, database, Answered(sharded()))
    assert shard(client, engine="highs")["cache"] == "miss"
    assert shard(client, headers={"Cache-Control": "no-cache"})["cache"] == "miss"


def test_an_infeasible_plan_is_stored_too(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    shard(client)
    finish(attempts, database, Answered(infeasible()))
    again = shard(client, time_limit_s=5)
    assert (again["state"], again["cache"]) == ("infeasible", "hit")


def test_a_solver_that_has_to_be_killed_leaves_its_last_plan(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = shard(client)["id"]
    order = claim(attempts, database)
    client.delete(f"/v1/jobs/{job_id}")
    news = Progress(incumbent=SHARDING_START, objective=10.5, lower_bound=9.75)
    attempts.end(order.fence, Overran(), news)
    result = client.get(f"/v1/jobs/{job_id}/result").json()
    assert result["instance"] == INSTANCE
    assert (result["plan"]["objective"], result["plan"]["status"]) == (10.5, "feasible")
    assert result["certificate"] == SHARDING_START["certificate"]
    assert result["provenance"]["stopped_by"] == "cancelled"


def test_waiting_and_validating(client: TestClient, database: Database) -> None:
    response = client.post(f"{SHARDING_ADDRESS}?validate_only=true", json={})
    assert (response.status_code, count_solves(database)) == (200, 0)
    response = client.post(SHARDING_ADDRESS, json={}, headers={"Prefer": "wait=1"})
    assert response.status_code == 202
    assert response.headers["Location"] == f"/v1/jobs/{response.json()['id']}"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"devices": 2000}, "devices"),
        ({"graph": {"operators": [{}] * 5}}, "graph.operators"),
        ({"time_limit_s": 1e6}, "solver.time_limit_s"),
        ({"devices": "8 x many"}, "devices"),
    ],
)
def test_what_is_too_large_is_refused(settings: Settings, body: dict[str, Any], path: str) -> None:
    small = settings.model_copy(update={"max_operators": 4, "max_devices": 7})
    with TestClient(create_app(small, resolve_fake, resolve_fake_sharding)) as client:
        response = client.post(SHARDING_ADDRESS, json=body)
    error = response.json()
    assert (response.status_code, error["code"]) == (422, "limit_exceeded")
    assert error["errors"][0]["path"] == path


def test_a_graph_is_counted_once_more_when_it_is_resolved(settings: Settings) -> None:
    small = settings.model_copy(update={"max_operators": 2})
    with TestClient(create_app(small, resolve_fake, resolve_fake_sharding)) as client:
        error = client.post(SHARDING_ADDRESS, json={}).json()
    assert (error["code"], error["errors"][0]["path"]) == ("limit_exceeded", "graph")


def test_a_fault_in_the_body_is_a_problem_document(client: TestClient) -> None:
    response = client.post(SHARDING_ADDRESS, json={"scipt": 1})
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["errors"][0]["path"] == "scipt"


def test_what_a_solver_process_reports_is_stored(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    command = (sys.executable, str(FAKE_SOLVER))
    hasty = settings.model_copy(
        update={"solver_command": command, "heartbeat_s": 0.3, "overtime_s": 1.0}
    )
    job_id = shard(client, "find", time_limit_s=1)["id"]
    supervise(claim(attempts, database), attempts, hasty)
    view = job(client, job_id)
    assert (view["state"], view["best_objective_bytes"]) == ("succeeded", 11)
    assert view["lower_bound_bytes"] == 9
    solve = only_solve(database)
    assert not solve.proven_optimal
    assert loads(solve.incumbent) == SHARDING_START
