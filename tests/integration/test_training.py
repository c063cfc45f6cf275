"""Training plans go through the same jobs, store and errors as the other kinds."""

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
    TRAINING_PLAN,
    TRAINING_START,
    infeasible,
    resolve_fake,
    resolve_fake_sharding,
    resolve_fake_training,
    trained,
)
from tests.integration.helpers import (
    SHARDING_ADDRESS,
    TRAINING_ADDRESS,
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


def plan(client: TestClient, script: Any = "answer", **more: Any) -> dict[str, Any]:
    """Post a request for a training plan and return the answer's body."""
    return post(client, script, address=TRAINING_ADDRESS, **more)


def test_a_plan_is_answered_at_once_the_second_time(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    first = plan(client, name="mine", tags=["x"])
    assert (first["state"], first["cache"]) == ("queued", "miss")
    assert plan(client)["cache"] == "joined"
    finish(attempts, database, Answered(trained()))
    again = plan(client, time_limit_s=5)
    assert (again["state"], again["cache"]) == ("succeeded", "hit")
    assert again["result"]["plans"] == TRAINING_PLAN["plans"]
    assert count_solves(database) == 1
    view = job(client, first["id"])
    assert (view["kind"], view["name"], view["tags"]) == ("training", "mine", ["x"])


def test_the_objective_is_a_step_time(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = plan(client)["id"]
    order = claim(attempts, database)
    attempts.renew(order.fence, Progress(incumbent=TRAINING_START, objective=20, lower_bound=10))
    view = job(client, job_id)
    assert (view["best_step_time_ns"], view["lower_bound_ns"], view["gap"]) == (20, 10, 0.5)
    others = ("best_makespan_ns", "best_objective_bytes", "lower_bound_bytes")
    assert [view[name] for name in others] == [None, None, None]
    attempts.end(order.fence, Answered(trained()), Progress())
    view = job(client, job_id)
    assert (view["best_step_time_ns"], view["gap"]) == (7, 0.0)
    for other in (post(client), post(client, address=SHARDING_ADDRESS)):
        assert job(client, other["id"])["best_step_time_ns"] is None


def test_a_lost_search_goes_on_from_what_it_had_reported(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    plan(client)
    order = claim(attempts, database)
    assert order.start is None
    attempts.end(order.fence, GivenBack(), Progress(incumbent=TRAINING_START, objective=9))
    resumed = claim(attempts, database).start
    assert resumed == {**TRAINING_START, "origin": {"kind": "earlier_attempt"}}


def test_a_cancelled_search_keeps_its_best_plans(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = plan(client)["id"]
    order = claim(attempts, database)
    client.delete(f"/v1/jobs/{job_id}")
    attempts.end(order.fence, Overran(), Progress(incumbent=TRAINING_START, objective=9))
    assert job(client, job_id)["state"] == "cancelled"
    result = client.get(f"/v1/jobs/{job_id}/result").json()
    assert result["plans"] == TRAINING_PLAN["plans"]
    assert result["certificate"] == TRAINING_START["certificate"]
    assert result["provenance"]["stopped_by"] == "cancelled"


def test_the_kinds_do_not_answer_each_other(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    finish(attempts, database)
    training = plan(client)
    assert training["cache"] == "miss"
    assert solve_row(database, newest_solve_id(database)).started_from is None
    listed = client.get("/v1/jobs?kind=training").json()["jobs"]
    assert [entry["id"] for entry in listed] == [training["id"]]


def test_an_infeasible_plan_is_stored_too(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    plan(client)
    finish(attempts, database, Answered(infeasible()))
    again = plan(client, time_limit_s=5)
    assert (again["state"], again["cache"]) == ("infeasible", "hit")


def test_waiting_and_validating(client: TestClient, database: Database) -> None:
    response = client.post(f"{TRAINING_ADDRESS}?validate_only=true", json={})
    assert (response.status_code, count_solves(database)) == (200, 0)
    response = client.post(TRAINING_ADDRESS, json={}, headers={"Prefer": "wait=1"})
    assert response.status_code == 202
    assert response.headers["Location"] == f"/v1/jobs/{response.json()['id']}"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"gpus": 17}, "cluster"),
        ({"training": {"pipeline_parallel": 257}}, "training.pipeline_parallel"),
        ({"time_limit_s": 1e6}, "solver.time_limit_s"),
    ],
)
def test_what_is_too_large_is_refused(settings: Settings, body: dict[str, Any], path: str) -> None:
    small = settings.model_copy(update={"max_gpus": 16})
    app = create_app(small, resolve_fake, resolve_fake_sharding, resolve_fake_training)
    with TestClient(app) as client:
        error = client.post(TRAINING_ADDRESS, json=body).json()
    assert (error["code"], error["errors"][0]["path"]) == ("limit_exceeded", path)


def test_a_fault_in_the_body_is_a_problem_document(client: TestClient) -> None:
    response = client.post(TRAINING_ADDRESS, json={"scipt": 1})
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["errors"][0]["path"] == "scipt"


def test_what_a_solver_process_reports_is_stored(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    command = (sys.executable, str(FAKE_SOLVER))
    hasty = settings.model_copy(
        update={"solver_command": command, "heartbeat_s": 0.3, "overtime_s": 1.0}
    )
    job_id = plan(client, "find", time_limit_s=1)["id"]
    supervise(claim(attempts, database), attempts, hasty)
    view = job(client, job_id)
    assert (view["state"], view["best_step_time_ns"]) == ("succeeded", 11)
    assert view["lower_bound_ns"] == 9
    solve = only_solve(database)
    assert not solve.proven_optimal
    assert loads(solve.incumbent) == TRAINING_START
