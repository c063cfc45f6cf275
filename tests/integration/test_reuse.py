"""Answers and starts from the store across options, limits and profiles."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, event
from starlette.testclient import TestClient

from app.database import Database
from app.services.attempts import Attempts, Progress
from app.services.transitions import Answered, Crashed, GivenBack
from tests.integration.fakes import START, infeasible, succeeded
from tests.integration.helpers import (
    claim,
    count_solves,
    finish,
    job,
    loads,
    newest_solve_id,
    post,
    set_columns,
    solve_row,
)

NO_CACHE = {"Cache-Control": "no-cache"}


def start_of_newest(database: Database) -> Any:
    """What the newest solve starts from, or None."""
    text = solve_row(database, newest_solve_id(database)).started_from
    return None if text is None else loads(text)


def profile(*, time: int = 1, limit: int = 1) -> dict[str, Any]:
    """A script that stands for a problem of one shape with these figures."""
    return {"do": "answer", "time": time, "limit": limit}


@pytest.mark.parametrize(
    "options", [{"time_limit_s": 5}, {"mip_gap": 0.1}, {"search_iterations": 100}]
)
def test_a_proven_optimum_answers_whatever_the_options(
    client: TestClient, database: Database, attempts: Attempts, options: dict[str, Any]
) -> None:
    first = post(client)
    finish(attempts, database)
    answer = post(client, **options)
    assert (answer["state"], answer["cache"]) == ("succeeded", "hit")
    assert answer["id"] != first["id"]
    assert count_solves(database) == 1


def test_a_proven_optimum_of_another_version_answers_other_options(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    finish(attempts, database)
    set_columns(database, solver_version="0.0.1")
    assert post(client, time_limit_s=5)["cache"] == "hit"


def test_a_named_engine_is_not_answered_by_the_proof_of_another(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client, engine="highs")
    finish(attempts, database)
    assert post(client, engine="cbc", time_limit_s=5)["cache"] == "miss"
    assert post(client, engine="highs", time_limit_s=6)["cache"] == "hit"
    assert post(client, time_limit_s=7)["cache"] == "hit"


def test_a_proof_comes_before_the_unproven_answer_of_the_identical_request(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client, time_limit_s=5)
    finish(attempts, database, objective=8, proven_optimal=False)
    post(client, time_limit_s=50)
    finish(attempts, database)
    again = post(client, time_limit_s=5)
    assert again["cache"] == "hit"
    assert again["result"]["certificate"]["proven_optimal"]


def test_a_plan_within_the_gap_answers_and_any_other_starts_a_solve(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    finish(attempts, database, objective=100, lower_bound=96, proven_optimal=False)
    set_columns(database, solver_version="0.0.1")
    assert post(client, mip_gap=0.05)["cache"] == "hit"
    assert post(client, mip_gap=0.04)["cache"] == "hit"
    assert post(client, mip_gap=0.03)["cache"] == "miss"
    start = start_of_newest(database)
    assert start["schedule"] == START["schedule"]
    assert start["origin"]["kind"] == "same_problem"
    assert claim(attempts, database).start == start


@pytest.mark.parametrize("options", [{}, {"time_limit_s": 5}, {"engine": "cbc"}])
def test_what_fits_nowhere_fits_under_no_options(
    client: TestClient, database: Database, attempts: Attempts, options: dict[str, Any]
) -> None:
    post(client, engine="highs", time_limit_s=9)
    finish(attempts, database, Answered(infeasible()))
    answer = post(client, **options)
    assert (answer["state"], answer["cache"]) == ("infeasible", "hit")


def test_an_unproven_plan_starts_the_solve_under_other_options(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    first = post(client, time_limit_s=5)
    finish(attempts, database, objective=9, proven_optimal=False)
    assert post(client, time_limit_s=50)["cache"] == "miss"
    origin = start_of_newest(database)["origin"]
    assert origin == {"kind": "same_problem", "job_id": first["id"], "distance": 0.0}


def test_the_best_plan_of_the_same_problem_is_chosen_however_its_solve_ended(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client, time_limit_s=5)
    finish(attempts, database, objective=9, proven_optimal=False)
    cancelled = post(client, time_limit_s=6)
    order = claim(attempts, database)
    attempts.renew(order.fence, Progress(incumbent=START, objective=8))
    client.delete(f"/v1/jobs/{cancelled['id']}")
    attempts.end(order.fence, Crashed("gone"), Progress())
    assert job(client, cancelled["id"])["state"] == "cancelled"
    post(client, time_limit_s=7)
    assert start_of_newest(database)["origin"]["job_id"] == cancelled["id"]


def test_a_plan_of_a_solve_that_still_runs_is_a_start_too(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    running = post(client, time_limit_s=5)
    order = claim(attempts, database)
    attempts.renew(order.fence, Progress(incumbent=START, objective=8))
    post(client, time_limit_s=6)
    assert start_of_newest(database)["origin"]["job_id"] == running["id"]


def test_the_nearest_profile_of_the_same_shape_is_chosen(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    far = post(client, profile(time=100, limit=10))
    finish(attempts, database)
    near = post(client, profile(time=105, limit=20))
    finish(attempts, database)
    post(client, {"do": "no plan", "time": 104, "limit": 20})
    finish(attempts, database)
    assert far["id"] != near["id"]
    assert post(client, profile(time=104, limit=20))["cache"] == "miss"
    origin = start_of_newest(database)["origin"]
    assert (origin["kind"], origin["job_id"]) == ("nearest_profile", near["id"])
    assert 0 < origin["distance"] < 0.01


def test_the_same_problem_under_another_limit_says_so(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    first = post(client, profile(time=100, limit=10))
    finish(attempts, database)
    post(client, profile(time=100, limit=8))
    origin = start_of_newest(database)["origin"]
    assert (origin["kind"], origin["job_id"]) == ("other_limit", first["id"])


def test_the_same_problem_comes_before_a_neighbour(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    own = post(client, profile(time=100), time_limit_s=5)
    finish(attempts, database, objective=9, proven_optimal=False)
    post(client, profile(time=101))
    finish(attempts, database)
    post(client, profile(time=100), time_limit_s=6)
    assert start_of_newest(database)["origin"]["job_id"] == own["id"]


def test_another_shape_is_no_neighbour(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client, profile())
    finish(attempts, database)
    post(client, {"do": "infeasible"})
    assert start_of_newest(database) is None


def test_no_cache_takes_nothing_from_the_store(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    finish(attempts, database)
    fresh = post(client, time_limit_s=5, headers=NO_CACHE)
    assert fresh["cache"] == "miss"
    assert start_of_newest(database) is None
    assert claim(attempts, database).start is None


def test_an_iteration_budget_starts_from_nothing_and_takes_no_plan_within_a_gap(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    finish(attempts, database, objective=100, lower_bound=99, proven_optimal=False)
    assert post(client, search_iterations=100, mip_gap=0.05)["cache"] == "miss"
    assert start_of_newest(database) is None
    order = claim(attempts, database)
    attempts.end(order.fence, GivenBack(), Progress(incumbent=START, objective=9))
    resumed = claim(attempts, database).start
    assert resumed == {**START, "origin": {"kind": "earlier_attempt"}}


def test_a_kept_plan_says_where_its_solve_had_started(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    first = post(client, time_limit_s=5)
    finish(attempts, database, objective=9, proven_optimal=False)
    second = post(client, time_limit_s=6)
    order = claim(attempts, database)
    attempts.renew(order.fence, Progress(incumbent=START, objective=8))
    client.delete(f"/v1/jobs/{second['id']}")
    attempts.end(order.fence, GivenBack(), Progress())
    provenance = client.get(f"/v1/jobs/{second['id']}/result").json()["provenance"]
    assert provenance["started_from"]["job_id"] == first["id"]


def test_many_posts_at_once_make_one_solve_for_each_set_of_options(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    first = post(client)
    finish(attempts, database, objective=9, proven_optimal=False)
    limits = [5, 6, 7, 8] * 6
    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(lambda limit: post(client, time_limit_s=limit), limits))
    assert count_solves(database) == 5
    assert sorted(body["cache"] for body in bodies) == ["joined"] * 20 + ["miss"] * 4
    assert start_of_newest(database)["origin"]["job_id"] == first["id"]


def test_posts_that_arrive_while_the_optimum_is_stored_are_answered_or_queued_once(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client)
    order = claim(attempts, database)
    found = Progress(incumbent=START, objective=7)
    with ThreadPoolExecutor(9) as pool:
        posts = [pool.submit(post, client, time_limit_s=5) for _ in range(8)]
        pool.submit(attempts.end, order.fence, Answered(succeeded()), found).result()
        bodies = [future.result() for future in posts]
    assert sum(body["cache"] == "miss" for body in bodies) <= 1
    assert post(client, time_limit_s=5)["cache"] == "hit"


def test_an_answer_from_the_store_takes_few_statements(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    post(client, tags=["one", "two"])
    finish(attempts, database)
    statements = Counter[str]()

    def count(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        # Those of the threads beside the requests ask about webhooks and what was not sent.
        if "webhooks" not in statement and "dispatched_at IS NULL" not in statement:
            statements[statement.split()[0]] += 1

    event.listen(Engine, "before_cursor_execute", count)
    try:
        assert post(client, tags=["three"])["cache"] == "hit"
    finally:
        event.remove(Engine, "before_cursor_execute", count)
    # Which solves may answer, and the answer; the solve is taken; the job and its tags are made.
    statements.pop("BEGIN", None)
    assert statements == {"SELECT": 2, "UPDATE": 1, "INSERT": 2}
