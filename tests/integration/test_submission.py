"""Taking on requests: one solve for equal ones, stored results, fresh solves."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from app.database import Database
from app.errors import RETRY_AFTER_S
from app.models import Solve
from app.services.attempts import Attempts
from app.services.placing import Overtaken, Placing
from app.services.transitions import Answered, Crashed
from tests.integration.fakes import infeasible
from tests.integration.helpers import (
    ADDRESS,
    claim,
    count_solves,
    finish,
    job,
    loads,
    newest_solve_id,
    only_solve,
    post,
    set_columns,
    solve_row,
)


def test_a_new_request_is_accepted_and_queued(client: TestClient, database: Database) -> None:
    response = client.post(ADDRESS, json={"script": "answer"})
    body = response.json()
    assert response.status_code == 202
    assert response.headers["Location"] == f"/v1/jobs/{body['id']}"
    assert body["state"] == "queued"
    assert body["cache"] == "miss"
    assert body["queue_position"] == 1
    assert body["enqueued_at"].endswith("Z")
    assert body["links"]["result"] == f"/v1/jobs/{body['id']}/result"
    assert only_solve(database).operations == 3


def test_an_equal_request_joins_the_solve_in_flight(client: TestClient, database: Database) -> None:
    first, second = post(client), post(client)
    assert second["cache"] == "joined"
    assert first["id"] != second["id"]
    assert count_solves(database) == 1


def test_a_finished_solve_answers_at_once(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    finish(attempts, database)
    response = client.post(ADDRESS, json={"script": "answer"})
    assert response.status_code == 200
    body = response.json()
    assert (body["state"], body["cache"]) == ("succeeded", "hit")
    assert body["result"]["schedule"]["makespan_ns"] == 7
    assert client.get(body["links"]["result"]).json() == body["result"]


def test_an_infeasible_answer_is_stored_too(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    finish(attempts, database, Answered(infeasible()))
    body = post(client)
    assert (body["state"], body["cache"]) == ("infeasible", "hit")
    assert body["result"]["infeasibility"]["devices"] == [0]


def test_a_failed_solve_is_tried_again(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    failed = {"state": "failed", "code": "no_plan_within_limit", "detail": "none"}
    finish(attempts, database, Answered(failed))
    assert post(client)["cache"] == "miss"


@pytest.mark.parametrize("posts", [100])
def test_many_equal_requests_at_once_make_one_solve(
    client: TestClient, database: Database, posts: int
) -> None:
    with ThreadPoolExecutor(20) as pool:
        bodies = list(pool.map(lambda _: post(client), range(posts)))
    assert count_solves(database) == 1
    assert sorted({body["cache"] for body in bodies}) == ["joined", "miss"]
    assert sum(body["cache"] == "miss" for body in bodies) == 1
    assert len({body["id"] for body in bodies}) == posts


def test_whoever_is_always_overtaken_may_come_again(
    client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(*_: object) -> None:
        raise Overtaken

    monkeypatch.setattr(Placing, "place", overtaken)
    response = client.post(ADDRESS, json={"script": "answer"})
    assert (response.status_code, response.json()["code"]) == (503, "database_unavailable")
    assert response.headers["Retry-After"] == str(RETRY_AFTER_S)
    assert count_solves(database) == 0


def test_a_named_engine_is_answered_only_by_its_own_results(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client, engine="highs")
    finish(attempts, database)
    assert post(client, engine="cbc")["cache"] == "miss"
    assert post(client, engine="highs")["cache"] == "hit"


def test_without_an_engine_any_result_answers_and_any_solve_is_joined(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client, engine="highs")
    assert post(client)["cache"] == "joined"
    finish(attempts, database)
    assert post(client)["cache"] == "hit"
    assert count_solves(database) == 1


def test_no_cache_forces_a_fresh_solve_which_later_requests_join(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    finish(attempts, database)
    fresh = post(client, headers={"Cache-Control": "no-cache"})
    assert (fresh["state"], fresh["cache"]) == ("queued", "miss")
    assert post(client)["cache"] == "joined"
    assert count_solves(database) == 2


def test_an_unproven_result_of_another_version_is_solved_again_from_its_plan(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    finish(attempts, database, proven_optimal=False)
    assert post(client)["cache"] == "hit"
    old = newest_solve_id(database)
    set_columns(database, solver_version="0.0.1")
    assert post(client)["cache"] == "miss"
    assert not solve_row(database, old).reusable
    renewed = solve_row(database, newest_solve_id(database))
    assert renewed.reusable
    start = loads(renewed.started_from)
    assert (start["schedule"]["makespan_ns"], start["origin"]["kind"]) == (7, "same_problem")
    assert claim(attempts, database).start == loads(renewed.started_from)


def test_a_proven_result_of_another_version_still_answers(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    finish(attempts, database)
    set_columns(database, solver_version="0.0.1")
    assert post(client)["cache"] == "hit"


def test_a_crashed_solve_is_joined_while_it_is_tried_again(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    first = post(client)
    finish(attempts, database, Crashed("gone"))
    assert job(client, first["id"])["state"] == "queued"
    assert post(client)["cache"] == "joined"


def test_queue_positions_follow_priority_then_age(client: TestClient) -> None:
    plain = [post(client, f"answer {n}")["id"] for n in range(3)]
    urgent = post(client, "answer urgent", priority=9)
    assert urgent["queue_position"] == 1
    assert [job(client, one)["queue_position"] for one in plain] == [2, 3, 4]


def test_a_more_urgent_job_raises_its_solve(client: TestClient, database: Database) -> None:
    post(client, "answer 1")
    last = post(client, "answer 2")["id"]
    with database.writing() as session:
        session.execute(update(Solve).values(dispatched_at=5))
    joined = post(client, "answer 2", priority=8)
    assert joined["cache"] == "joined"
    assert job(client, last)["queue_position"] == 1
    solve = solve_row(database, newest_solve_id(database))
    assert (solve.priority, solve.dispatched_at) == (8, None)


def test_validate_only_queues_nothing(client: TestClient, database: Database) -> None:
    response = client.post(f"{ADDRESS}?validate_only=true", json={"script": "answer"})
    assert response.status_code == 200
    assert response.json()["placements"][0]["problem"]["micro_batches"] == 1
    assert count_solves(database) == 0
