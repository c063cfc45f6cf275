"""Jobs: views, results, logs, cancelling, waiting, listing."""

from __future__ import annotations

import threading
import time

from sqlalchemy import update
from starlette.testclient import TestClient

from app.database import Database
from app.models import Job
from app.services.attempts import Attempts, Progress, Standing
from app.services.transitions import Answered, GivenBack, Overran
from tests.integration.fakes import START, infeasible, succeeded
from tests.integration.helpers import (
    ADDRESS,
    claim,
    count_solves,
    finish,
    job,
    only_solve,
    post,
)


def test_a_running_job_shows_its_progress(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client, name="mine", tags=["b", "a", "b"])["id"]
    order = claim(attempts, database)
    progress = Progress(
        spent_ms=1500,
        phase="cbc",
        lower_bound=6,
        incumbent=START,
        objective=8,
        log_lines=["one", "two"],
    )
    assert attempts.renew(order.fence, progress) is Standing.GO_ON
    view = job(client, job_id)
    assert (view["name"], view["tags"], view["kind"]) == ("mine", ["a", "b"], "pipeline")
    assert (view["state"], view["phase"], view["attempts"]) == ("running", "cbc", 1)
    assert (view["best_makespan_ns"], view["lower_bound_ns"], view["gap"]) == (8, 6, 0.25)
    assert view["queue_position"] is None
    assert view["progress_at"] is not None
    assert 0 <= view["heartbeat_age_s"] < 30
    assert client.get(f"/v1/jobs/{job_id}").headers["Retry-After"] == "1"


def test_the_log_is_read_from_an_offset(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    order = claim(attempts, database)
    attempts.renew(order.fence, Progress(log_lines=["one", "two\x00"]))
    page = client.get(f"/v1/jobs/{job_id}/log").json()
    assert page == {"lines": ["one", "two"], "next_offset": 2, "over": False}
    attempts.end(order.fence, Answered(succeeded()), Progress(log_lines=["three"]))
    page = client.get(f"/v1/jobs/{job_id}/log?offset=2").json()
    assert page == {"lines": ["three"], "next_offset": 3, "over": True}


def test_a_log_keeps_its_last_lines(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    attempts._settings = attempts._settings.model_copy(update={"max_log_lines": 3})
    job_id = post(client)["id"]
    order = claim(attempts, database)
    for start in (0, 4):
        lines = [f"line {n}" for n in range(start, start + 4)]
        attempts.renew(order.fence, Progress(log_lines=lines))
    page = client.get(f"/v1/jobs/{job_id}/log").json()
    assert page["lines"] == ["line 5", "line 6", "line 7"]
    assert page["next_offset"] == 8


def test_the_result_follows_the_state(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    waiting = client.get(f"/v1/jobs/{job_id}/result")
    assert (waiting.status_code, waiting.json()["code"]) == (409, "not_over")
    finish(attempts, database)
    result = client.get(f"/v1/jobs/{job_id}/result")
    assert result.status_code == 200
    provenance = result.json()["provenance"]
    assert provenance["engine"] == "cbc"
    assert (provenance["attempts"], provenance["worker"]) == (1, "test-worker")
    assert provenance["queue_seconds"] >= 0


def test_an_infeasible_job_has_a_result(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    finish(attempts, database, Answered(infeasible()))
    assert job(client, job_id)["state"] == "infeasible"
    result = client.get(f"/v1/jobs/{job_id}/result")
    assert (result.status_code, result.json()["infeasibility"]) == (200, {"devices": [0]})


def test_a_failed_job_says_why(client: TestClient, database: Database, attempts: Attempts) -> None:
    job_id = post(client)["id"]
    order = claim(attempts, database)
    failed = {"state": "failed", "code": "no_plan_within_limit", "detail": "None was found."}
    attempts.end(order.fence, Answered(failed), Progress(log_lines=["a line"]))
    response = client.get(f"/v1/jobs/{job_id}/result")
    body = response.json()
    assert (response.status_code, body["code"]) == (410, "no_plan_within_limit")
    assert body["type"] == "urn:loadmaster:problem:no_plan_within_limit"
    assert (body["detail"], body["log_tail"]) == ("None was found.", ["a line"])


def test_one_of_two_jobs_leaves_and_the_solve_goes_on(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    first, second = post(client)["id"], post(client)["id"]
    order = claim(attempts, database)
    left = client.delete(f"/v1/jobs/{first}").json()
    assert (left["state"], left["cancel_requested"]) == ("cancelled", False)
    assert left["finished_at"] is not None
    assert attempts.renew(order.fence, Progress()) is Standing.GO_ON
    assert job(client, second)["state"] == "running"
    assert client.get(f"/v1/jobs/{first}/result").json()["code"] == "no_plan"
    attempts.end(order.fence, Answered(succeeded()), Progress())
    assert job(client, first)["state"] == "cancelled"
    assert job(client, second)["state"] == "succeeded"


def test_the_last_job_stops_the_solve_which_keeps_its_best(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    order = claim(attempts, database)
    stopping = client.delete(f"/v1/jobs/{job_id}").json()
    assert (stopping["state"], stopping["cancel_requested"]) == ("running", True)
    assert attempts.renew(order.fence, Progress()) is Standing.STOP
    assert post(client)["cache"] == "miss", "a solve that is stopping is not joined"
    attempts.end(order.fence, Answered(succeeded(proven_optimal=False)), Progress())
    view = client.delete(f"/v1/jobs/{job_id}").json()
    assert (view["state"], view["cancel_requested"]) == ("cancelled", False)
    result = client.get(f"/v1/jobs/{job_id}/result")
    assert result.json()["schedule"]["makespan_ns"] == 7


def test_a_solver_that_has_to_be_killed_leaves_its_last_plan(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    order = claim(attempts, database)
    client.delete(f"/v1/jobs/{job_id}")
    news = Progress(incumbent=START, objective=7, lower_bound=6)
    attempts.end(order.fence, Overran(), news)
    result = client.get(f"/v1/jobs/{job_id}/result").json()
    assert result["schedule"]["lower_bound_ns"] == 6
    assert result["certificate"]["gap"] == round(1 / 7, 6)
    assert result["provenance"]["stopped_by"] == "cancelled"


def test_a_queued_job_is_cancelled_at_once(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    for _ in range(2):
        view = client.delete(f"/v1/jobs/{job_id}").json()
        assert view["state"] == "cancelled"
    assert attempts.claim(only_solve(database).id) is None
    response = client.get(f"/v1/jobs/{job_id}/result")
    assert (response.status_code, response.json()["code"]) == (404, "no_plan")
    assert post(client)["cache"] == "miss"


def test_a_queued_job_that_ran_before_keeps_its_plan(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    order = claim(attempts, database)
    attempts.end(order.fence, GivenBack(), Progress(incumbent=START, objective=7))
    assert client.delete(f"/v1/jobs/{job_id}").json()["state"] == "cancelled"
    assert client.get(f"/v1/jobs/{job_id}/result").json()["schedule"]["makespan_ns"] == 7


def test_cancelling_what_is_over_changes_nothing(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    job_id = post(client)["id"]
    finish(attempts, database)
    response = client.delete(f"/v1/jobs/{job_id}")
    assert (response.status_code, response.json()["state"]) == (200, "succeeded")


def test_waiting_answers_with_the_result(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    def work() -> None:
        while count_solves(database) == 0:
            time.sleep(0.02)
        finish(attempts, database)

    worker = threading.Thread(target=work)
    worker.start()
    response = client.post(ADDRESS, json={}, headers={"Prefer": "wait=30, respond-async"})
    worker.join()
    assert response.status_code == 200
    assert response.headers["Preference-Applied"] == "wait=30"
    body = response.json()
    assert (body["state"], body["cache"]) == ("succeeded", "miss")
    assert body["result"]["schedule"]["makespan_ns"] == 7


def test_waiting_ends_after_its_time(client: TestClient) -> None:
    response = client.post(ADDRESS, json={}, headers={"Prefer": "wait=1"})
    assert response.status_code == 202
    assert response.json()["state"] == "queued"


def test_many_wait_at_once_without_holding_connections(client: TestClient) -> None:
    replies: list[int] = []

    def wait() -> None:
        headers = {"Prefer": "wait=10"}
        replies.append(client.post(ADDRESS, json={}, headers=headers).status_code)

    waiting = [threading.Thread(target=wait) for _ in range(60)]
    for thread in waiting:
        thread.start()
    time.sleep(1)
    began = time.monotonic()
    assert client.get("/v1/jobs?limit=1").status_code == 200
    assert time.monotonic() - began < 8
    for thread in waiting:
        thread.join()
    assert replies == [202] * 60


def test_waiting_for_a_failure_tells_it(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    def work() -> None:
        while count_solves(database) == 0:
            time.sleep(0.02)
        failed = {"state": "failed", "code": "no_plan_within_limit", "detail": "none"}
        finish(attempts, database, Answered(failed))

    worker = threading.Thread(target=work)
    worker.start()
    body = client.post(ADDRESS, json={}, headers={"Prefer": "wait=30"}).json()
    worker.join()
    assert (body["state"], body["result"]) == ("failed", None)
    assert body["error"]["code"] == "no_plan_within_limit"


def test_jobs_are_listed_in_pages_newest_first(client: TestClient) -> None:
    made = [post(client, f"answer {n}")["id"] for n in range(7)]
    seen: list[str] = []
    cursor = ""
    while True:
        page = client.get(f"/v1/jobs?limit=3{cursor}").json()
        seen += [entry["id"] for entry in page["jobs"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert sorted(seen) == sorted(made)
    times = [job(client, one)["created_at"] for one in seen]
    assert times == sorted(times, reverse=True)


def test_jobs_are_filtered(client: TestClient, database: Database, attempts: Attempts) -> None:
    first = post(client, "answer 1", name="one", tags=["x", "y"])["id"]
    second = post(client, "answer 2", name="two", tags=["y"])["id"]
    client.delete(f"/v1/jobs/{first}")

    def listed(query: str) -> list[str]:
        return [entry["id"] for entry in client.get(f"/v1/jobs?{query}").json()["jobs"]]

    assert listed("state=cancelled") == [first]
    assert listed("state=queued") == [second]
    assert listed("name=two") == [second]
    assert listed("name=tw") == listed("name=WO") == [second]
    assert sorted(listed("name=o")) == sorted([first, second])
    assert listed("tag=x") == [first]
    assert sorted(listed("tag=y")) == sorted([first, second])
    assert listed("kind=pipeline&tag=y&state=queued") == [second]
    assert listed("kind=sharding") == []


def test_jobs_are_filtered_by_a_part_of_name_and_model(
    client: TestClient, database: Database, attempts: Attempts
) -> None:
    percent = post(client, "answer 1", name="100% of nodes")["id"]
    plain = post(client, "answer 2", name="100 of NODES_x/y\\z")["id"]
    nameless = post(client, "answer 3")["id"]
    with database.writing() as session:
        session.execute(update(Job).where(Job.id == nameless).values(model="GPT-14.2B"))

    def listed(**filters: str) -> list[str]:
        answer = client.get("/v1/jobs", params=filters)
        assert answer.status_code == 200
        return [entry["id"] for entry in answer.json()["jobs"]]

    assert listed(name="Nodes") == [plain, percent]
    # What the database's patterns are made of stands for itself.
    assert listed(name="0%") == [percent]
    assert listed(name="s_x") == listed(name="x/Y") == listed(name="y\\Z") == [plain]
    assert listed(name="0_of") == listed(name="%")[1:] == []
    assert listed(name="'") == []
    assert listed(model="gpt-14") == listed(model="14.2b") == [nameless]
    assert listed(model="gpt", name="%") == listed(model="14_2") == []
