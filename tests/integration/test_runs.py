"""Runs as clients see them: made, listed, shown, changed, acknowledged, stopped and removed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient

from app.database import Database
from app.errors import RETRY_AFTER_S
from app.models import Job, RunDocument, RunTelemetry, RunVersion
from app.repositories.runs import RunRepository
from app.schemas.timelines import TimelineView
from app.services.attempts import Attempts, Progress
from app.services.runs.keeper import RunKeeper
from app.services.runs.newest import FURTHEST_AHEAD
from app.services.transitions import Answered
from app.settings import Settings
from tests.integration.following import (
    FOLLOW,
    PROBLEM,
    RUNS,
    acknowledge,
    answer_solve,
    keeper_of,
    look,
    ops,
    queued,
    report,
    start_run,
    telemetry,
    view,
)

NO_RUN = "00000000-0000-4000-8000-000000000000"


PLAN = {"ops": ops()}


def change_settings(client: TestClient, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Other settings for what makes runs."""
    service = client.app.state.services.run_requests  # type: ignore[attr-defined]
    changed = service._settings.model_copy(update=changes)
    monkeypatch.setattr(service, "_settings", changed)


def problem_code(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def count(database: Database, table: Any) -> int:
    with database.reading() as session:
        return session.scalars(select(func.count()).select_from(table)).one()


def test_a_run_without_a_plan_is_planned_by_an_ordinary_job(
    run_client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    body = {"problem": PROBLEM, "name": "night run", "tags": ["nightly"]}
    made = run_client.post(RUNS, json=body)
    assert made.status_code == 201
    run = made.json()
    assert made.headers["Location"] == run["links"]["self"] == f"{RUNS}/{run['id']}"
    job = run_client.get(run["links"]["job"]).json()
    assert (job["name"], sorted(job["tags"])) == ("night run", ["nightly", f"run:{run['id']}"])
    awaited = run_client.get(run["links"]["plan"])
    assert (awaited.status_code, awaited.json()["state"]) == (202, "queued")
    assert awaited.headers["Retry-After"]
    answer_solve(attempts, database)
    look(database, keeper_of(database, settings))
    plan = run_client.get(run["links"]["plan"])
    assert plan.status_code == 200
    assert (plan.json()["version"], plan.json()["reason"]) == (1, "first")
    assert [op["op"] for op in plan.json()["schedule"]["ops"]].count("F") == 4
    assert plan.json()["problem"]["micro_batches"] == PROBLEM["micro_batches"]
    assert plan.json()["makespan_ns"] == 8000
    assert view(run_client, run["id"])["re_solve"] is None


def test_a_given_plan_is_version_1_and_has_to_be_valid(run_client: TestClient) -> None:
    run_id = start_run(run_client)
    plan = run_client.get(f"{RUNS}/{run_id}/plan").json()
    assert (plan["version"], plan["state"], plan["reason"]) == (1, "confirmed", "given")
    late = ops()
    late[0] |= {"start_ns": 1_000, "end_ns": 2_000}
    for wrong in (late, ops()[:-1], [{**ops()[0], "stage": 9}], [*ops(), ops()[0]]):
        for address in (RUNS, f"{RUNS}?validate_only=true"):
            refused = run_client.post(address, json={"problem": PROBLEM, "plan": {"ops": wrong}})
            assert refused.status_code == 422, refused.text
            assert refused.json()["errors"][0]["path"] == "plan.ops"


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"follow": {"window": 5}}, "follow.window"),
        ({"follow": {"solve_time_limit_s": 3600, "speed": 1}}, "follow.speed"),
        ({"webhook": {"url": "https://a.example"}}, "webhook"),
        ({"tags": [""]}, "tags.0"),
        ({"problem": {**PROBLEM, "micro_batches": 0}}, "problem.micro_batches"),
    ],
)
def test_what_is_wrong_is_named_and_makes_nothing(
    run_client: TestClient, database: Database, more: dict[str, Any], path: str
) -> None:
    refused = run_client.post(RUNS, json={"problem": PROBLEM, **more})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["path"] == path
    assert count(database, Job) == count(database, RunDocument) == 0


def test_more_than_a_solve_may_take_is_refused(
    run_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_settings(run_client, monkeypatch, max_time_limit_s=10)
    for seconds, status in ((11, 422), (10, 201)):
        body = {"problem": PROBLEM, "follow": {"solve_time_limit_s": seconds}, "plan": PLAN}
        assert run_client.post(RUNS, json=body).status_code == status


def test_validate_only_makes_nothing(run_client: TestClient, database: Database) -> None:
    shown = run_client.post(f"{RUNS}?validate_only=true", json={"problem": PROBLEM})
    assert shown.status_code == 200
    assert shown.json()["follow"]["resolve_every"] == 50
    assert shown.json()["placements"][0]["feasible"]
    assert count(database, Job) == 0


def test_a_request_that_comes_twice_under_its_key_makes_one_run(run_client: TestClient) -> None:
    body, key = {"problem": PROBLEM}, {"Idempotency-Key": "once"}
    first, again = (run_client.post(RUNS, json=body, headers=key) for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert again.headers["Idempotency-Replayed"] == "true"
    other = run_client.post(RUNS, json={**body, "name": "other"}, headers=key)
    assert problem_code(other) == (422, "idempotency_key_reused")


def test_runs_are_listed_newest_first_page_by_page(run_client: TestClient) -> None:
    run_ids = [start_run(run_client, name=f"run {number}") for number in range(3)]
    run_client.delete(f"{RUNS}/{run_ids[0]}")
    page = run_client.get(f"{RUNS}?limit=2").json()
    assert [run["id"] for run in page["runs"]] == run_ids[:0:-1]
    rest = run_client.get(f"{RUNS}?limit=2&cursor={page['next_cursor']}").json()
    assert [run["id"] for run in rest["runs"]] == run_ids[:1]
    assert rest["next_cursor"] is None
    stopped = run_client.get(f"{RUNS}?state=stopped").json()["runs"]
    assert [run["id"] for run in stopped] == run_ids[:1]


def test_the_view_says_what_stages_take(run_client: TestClient) -> None:
    run_id = start_run(run_client)
    assert view(run_client, run_id)["stages"] == []
    report(run_client, run_id, range(10), {1: 2.0})
    answer = run_client.get(f"{RUNS}/{run_id}")
    # The first iteration is known only once somebody has looked.
    assert answer.json()["newest_iteration"] == 9
    known = {"If-None-Match": answer.headers["ETag"]}
    assert run_client.get(f"{RUNS}/{run_id}", headers=known).status_code == 304
    report(run_client, run_id, range(10, 11))
    assert run_client.get(f"{RUNS}/{run_id}", headers=known).status_code == 200


def test_what_is_known_of_a_run_does_not_outlive_an_acknowledgement_or_the_start_of_its_solve(
    run_client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    run_id = start_run(run_client, planned=False)

    def known() -> dict[str, str]:
        return {"If-None-Match": run_client.get(f"{RUNS}/{run_id}").headers["ETag"]}

    waiting = known()
    assert run_client.get(f"{RUNS}/{run_id}", headers=waiting).status_code == 304
    assert attempts.claim(queued(database)[0]) is not None
    running = run_client.get(f"{RUNS}/{run_id}", headers=waiting)
    assert running.json()["re_solve"]["state"] == "running"

    run_id = start_run(run_client)
    nobody = known()
    ack = {"rank": 0, "iteration": 0}
    assert run_client.post(f"{RUNS}/{run_id}/plan/1/ack", json=ack).is_success
    somebody = run_client.get(f"{RUNS}/{run_id}", headers=nobody)
    assert somebody.json()["versions"][0]["acknowledged"] == 1


def test_polls_of_the_plan_know_when_nothing_has_changed(run_client: TestClient) -> None:
    run_id = start_run(run_client)
    for query in ("", "?brief=true"):
        plan = run_client.get(f"{RUNS}/{run_id}/plan{query}")
        assert ("schedule" in plan.json()) == (not query)
        known = {"If-None-Match": plan.headers["ETag"]}
        again = run_client.get(f"{RUNS}/{run_id}/plan{query}", headers=known)
        assert again.status_code == 304
    began = time.monotonic()
    waited = run_client.get(
        f"{RUNS}/{run_id}/plan?brief=true", headers={**known, "Prefer": "wait=1"}
    )
    assert waited.status_code == 304
    assert time.monotonic() - began >= 0.9


def test_a_wait_for_the_first_plan_ends_with_it(
    run_client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    run_id = start_run(run_client, planned=False, follow={**FOLLOW, "swap_lead": 10})
    keeper = keeper_of(database, settings)

    def plan_later() -> None:
        time.sleep(0.3)
        answer_solve(attempts, database)
        look(database, keeper)

    planning = threading.Thread(target=plan_later)
    planning.start()
    plan = run_client.get(f"{RUNS}/{run_id}/plan", headers={"Prefer": "wait=30"})
    planning.join()
    assert (plan.status_code, plan.json()["version"]) == (200, 1)


def waiting(client: TestClient, run_id: str, then: Callable[[], object]) -> tuple[Any, float]:
    """The answer to a long wait for news during which something happens, and its seconds."""
    plan = client.get(f"{RUNS}/{run_id}/plan?brief=true")
    headers = {"If-None-Match": plan.headers["ETag"], "Prefer": "wait=30"}
    later = threading.Timer(0.3, then)
    later.start()
    began = time.monotonic()
    answer = client.get(f"{RUNS}/{run_id}/plan?brief=true", headers=headers)
    later.join()
    return answer, time.monotonic() - began


def test_a_wait_for_news_ends_where_the_run_is_stopped(run_client: TestClient) -> None:
    run_id = start_run(run_client)
    answer, waited_s = waiting(
        run_client, run_id, lambda: run_client.delete(f"{RUNS}/{run_id}").raise_for_status()
    )
    assert answer.status_code == 304
    assert waited_s < 20
    # Who asks again is kept waiting, since nothing will happen any more.
    headers = {"If-None-Match": answer.headers["ETag"], "Prefer": "wait=1"}
    began = time.monotonic()
    assert run_client.get(f"{RUNS}/{run_id}/plan?brief=true", headers=headers).status_code == 304
    assert time.monotonic() - began >= 0.9


def test_a_wait_for_news_ends_where_the_service_does(run_client: TestClient) -> None:
    run_id = start_run(run_client)
    waits = run_client.app.state.services.waits  # type: ignore[attr-defined]
    answer, waited_s = waiting(run_client, run_id, waits.end)
    assert answer.status_code == 304
    assert waited_s < 20


def test_the_timeline_of_a_version_needs_no_job(run_client: TestClient) -> None:
    run_id = start_run(run_client)
    path = f"{RUNS}/{run_id}/plan/1/timeline"
    answer = run_client.get(path)
    assert answer.status_code == 200, answer.text
    timeline = answer.json()
    TimelineView.model_validate(timeline, strict=True)
    assert (timeline["schedule"], timeline["makespan_ns"]) == ("Version 1", 8000)
    assert timeline["ops"]["op"].count("F") == 4
    assert [device["busy_ns"] for device in timeline["devices"]] == [6000, 6000]
    known = {"If-None-Match": answer.headers["ETag"]}
    assert run_client.get(path, headers=known).status_code == 304
    for other in (known, {"If-None-Match": "*"}):
        missing = run_client.get(f"{RUNS}/{run_id}/plan/2/timeline", headers=other)
        assert problem_code(missing) == (404, "version_not_found")


def test_an_acknowledgement_counts_once_and_says_how_many_there_are(
    run_client: TestClient,
) -> None:
    run_id = start_run(run_client)
    path = f"{RUNS}/{run_id}/plan/1/ack"
    for rank, acknowledged in ((0, 1), (0, 1), (1, 2)):
        answer = run_client.post(path, json={"rank": rank, "iteration": 3}).json()
        assert (answer["acknowledged"], answer["of"]) == (acknowledged, 2)
    assert view(run_client, run_id)["versions"][0]["acknowledged"] == 2
    assert problem_code(run_client.post(path, json={"rank": 2, "iteration": 3})) == (
        422, "invalid_request",
    )  # fmt: skip
    missing = run_client.post(f"{RUNS}/{run_id}/plan/2/ack", json={"rank": 0, "iteration": 3})
    assert problem_code(missing) == (404, "version_not_found")
    report(run_client, run_id, range(1, 2))
    furthest = 1 + FOLLOW["swap_lead"] + FURTHEST_AHEAD
    assert run_client.post(path, json={"rank": 0, "iteration": furthest}).status_code == 200
    ahead = run_client.post(path, json={"rank": 0, "iteration": furthest + 1})
    assert ahead.json()["errors"][0]["path"] == "iteration"


def test_an_acknowledgement_may_be_corrected_until_the_version_is_scheduled(
    run_client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    run_id = start_run(run_client, planned=False, follow={**FOLLOW, "swap_lead": 10})
    keeper = keeper_of(database, settings)
    answer_solve(attempts, database)
    look(database, keeper)
    report(run_client, run_id, range(1, 2))
    path = f"{RUNS}/{run_id}/plan/1/ack"
    assert view(run_client, run_id)["versions"][0]["missing_ranks"] == [0, 1]
    for rank, iteration in ((0, 9_000), (0, 2), (1, 3)):
        assert run_client.post(path, json={"rank": rank, "iteration": iteration}).is_success
    look(database, keeper)
    (version,) = view(run_client, run_id)["versions"]
    assert version["apply_at_iteration"] == 3 + 10
    assert version["missing_ranks"] == []


def published(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings, **follow: Any
) -> tuple[str, RunKeeper]:
    """A run whose version 2 waits for acknowledgements, and its keeper."""
    run_id = start_run(client, follow={**FOLLOW, **follow})
    keeper = keeper_of(database, settings)
    client.post(f"{RUNS}/{run_id}/plan/1/ack", json={"rank": 0, "iteration": 0})
    report(client, run_id, range(30))
    look(database, keeper)
    report(client, run_id, range(30, 60), {1: 1.5})
    look(database, keeper)
    answer_solve(attempts, database, gain=0.2)
    look(database, keeper)
    assert view(client, run_id)["newest_state"] == "published"
    return run_id, keeper


def test_ranks_cannot_join_while_a_swap_is_scheduled(
    run_client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    run_id, keeper = published(run_client, database, attempts, settings)
    acknowledge(run_client, run_id, 2, iteration=61)
    look(database, keeper)
    version = view(run_client, run_id)["versions"][0]
    assert (version["state"], version["apply_at_iteration"]) == ("scheduled", 66)
    refused = run_client.patch(f"{RUNS}/{run_id}", json={"follow": {"ranks": 4}})
    assert problem_code(refused) == (422, "invalid_request")
    (error,) = refused.json()["errors"]
    assert error["path"] == "follow.ranks"
    assert "iteration 66" in error["message"]
    shown = view(run_client, run_id)
    assert (shown["ranks"], shown["versions"][0]["of"]) == (2, 2)
    report(run_client, run_id, range(60, 68), {1: 1.5})
    look(database, keeper)
    assert view(run_client, run_id)["newest_state"] == "running"
    assert run_client.patch(f"{RUNS}/{run_id}", json={"follow": {"ranks": 4}}).status_code == 200


def test_a_version_that_waits_waits_for_the_ranks_that_there_are_by_then(
    run_client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    run_id, keeper = published(run_client, database, attempts, settings, ranks=4)

    def standing() -> tuple[Any, ...]:
        look(database, keeper)
        version = view(run_client, run_id)["versions"][0]
        return tuple(version[name] for name in ("state", "acknowledged", "of", "missing_ranks"))

    for rank in (2, 3):
        body = {"rank": rank, "iteration": 61}
        run_client.post(f"{RUNS}/{run_id}/plan/2/ack", json=body)
    assert standing() == ("published", 2, 4, [0, 1])
    run_client.patch(f"{RUNS}/{run_id}", json={"follow": {"ranks": 3}})
    assert standing() == ("published", 1, 3, [0, 1])
    # As many as there are have said so, but not they.
    run_client.patch(f"{RUNS}/{run_id}", json={"follow": {"ranks": 2}})
    assert standing() == ("published", 0, 2, [0, 1])
    acknowledge(run_client, run_id, 2, iteration=61)
    assert standing() == ("scheduled", 2, 2, [])


def test_changes_are_of_what_is_given(
    run_client: TestClient, database: Database, settings: Settings
) -> None:
    run_id = start_run(run_client, name="before")
    changed = run_client.patch(
        f"{RUNS}/{run_id}", json={"name": "after", "follow": {"min_gain": 0.5}}
    )
    assert (changed.status_code, changed.json()["name"]) == (200, "after")
    shown = view(run_client, run_id)
    assert shown["settings"]["min_gain"] == 0.5
    assert shown["settings"]["swap_lead"] == FOLLOW["swap_lead"]
    refused = run_client.patch(f"{RUNS}/{run_id}", json={"follow": {"min_gain": 2}})
    assert refused.json()["errors"][0]["path"] == "follow.min_gain"
    assert run_client.patch(f"{RUNS}/{run_id}", json={"tags": ["new"]}).status_code == 422
    assert run_client.patch(f"{RUNS}/{run_id}", json={"speed": 1}).status_code == 422
    assert view(run_client, run_id)["settings"]["min_gain"] == 0.5
    assert queued(database) == []


def test_a_change_that_is_always_overtaken_may_be_made_again(
    run_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = start_run(run_client, name="before")
    monkeypatch.setattr(RunRepository, "change", lambda *_, **columns: False)
    refused = run_client.patch(f"{RUNS}/{run_id}", json={"name": "after"})
    assert problem_code(refused) == (503, "database_unavailable")
    assert refused.headers["Retry-After"] == str(RETRY_AFTER_S)
    assert view(run_client, run_id)["name"] == "before"


def test_another_shape_is_planned_at_once_and_needs_a_restart(
    run_client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    run_id = start_run(run_client)
    keeper = keeper_of(database, settings)
    report(run_client, run_id, range(5))
    look(database, keeper)
    smaller = {**PROBLEM, "devices": [{}], "stages": PROBLEM["stages"][:1]}
    assert run_client.patch(f"{RUNS}/{run_id}", json={"problem": smaller}).status_code == 200
    look(database, keeper)
    answer_solve(attempts, database)
    look(database, keeper)
    newest = view(run_client, run_id)["versions"][0]
    assert (newest["version"], newest["reason"], newest["needs_restart"]) == (
        2, "shape_change", True,
    )  # fmt: skip
    assert newest["of"] == 1


def test_reports_of_an_older_shape_are_taken_and_count_for_nothing(
    run_client: TestClient, database: Database, settings: Settings
) -> None:
    run_id = start_run(run_client)
    report(run_client, run_id, range(20))
    alone = {**PROBLEM, "devices": [{}], "stages": PROBLEM["stages"][:1]}
    assert run_client.patch(f"{RUNS}/{run_id}", json={"problem": alone}).status_code == 200
    posted = [
        {**telemetry(20 + i, {0: 3.0}), **named}
        for i, named in enumerate(({}, {"plan_version": 1}))
    ]
    for body in posted:
        taken = run_client.post(f"{RUNS}/{run_id}/telemetry", json=body)
        assert (taken.status_code, taken.json()["accepted"]) == (200, 2), taken.text
        assert taken.json()["plan"]["version"] == 1
    look(database, keeper_of(database, settings))
    assert view(run_client, run_id)["stages"] == []
    # No rank of the new shape has that stage.
    wrong = {**telemetry(30), "plan_version": 2}
    refused = run_client.post(f"{RUNS}/{run_id}/telemetry", json=wrong)
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "stages")


def test_stopping_cancels_the_solve_in_flight_and_again_changes_nothing(
    run_client: TestClient, database: Database
) -> None:
    run_id = start_run(run_client, planned=False)
    job = run_client.get(f"{RUNS}/{run_id}").json()["links"]["job"]
    first, again = (run_client.delete(f"{RUNS}/{run_id}").json() for _ in range(2))
    assert first == again
    assert first["state"] == "stopped"
    assert run_client.get(job).json()["state"] == "cancelled"
    assert queued(database) == []
    for refused in (
        run_client.patch(f"{RUNS}/{run_id}", json={"name": "late"}),
        run_client.post(f"{RUNS}/{run_id}/plan/1/ack", json={"rank": 0, "iteration": 0}),
    ):
        assert problem_code(refused) == (409, "run_stopped")


def test_a_purge_removes_everything_but_jobs(run_client: TestClient, database: Database) -> None:
    kept = start_run(run_client)
    run_id = start_run(run_client)
    for own in (kept, run_id):
        report(run_client, own, range(3))
        acknowledge(run_client, own, 1)
    assert problem_code(run_client.delete(f"{RUNS}/{run_id}?purge=true")) == (409, "run_active")
    run_client.delete(f"{RUNS}/{run_id}")
    assert run_client.delete(f"{RUNS}/{run_id}?purge=true").status_code == 204
    assert problem_code(run_client.get(f"{RUNS}/{run_id}")) == (404, "run_not_found")
    assert count(database, RunVersion) == 1
    assert count(database, RunTelemetry) == 6
    assert view(run_client, kept)["versions"][0]["acknowledged"] == 2


def test_a_tenant_follows_so_many_runs(
    run_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_settings(run_client, monkeypatch, max_active_runs_per_tenant=2)
    run_id, _ = start_run(run_client), start_run(run_client)
    refused = run_client.post(RUNS, json={"problem": PROBLEM})
    assert problem_code(refused) == (429, "too_many_runs")
    run_client.delete(f"{RUNS}/{run_id}")
    start_run(run_client)


def test_diagnosis_and_proposals_are_of_the_runs_own_numbers(
    run_client: TestClient, database: Database, settings: Settings
) -> None:
    run_id = start_run(run_client)
    report(run_client, run_id, range(60), {1: 2.0})
    diagnosis = run_client.get(f"{RUNS}/{run_id}/diagnosis")
    assert diagnosis.status_code == 200, diagnosis.text
    assert "stage_imbalance" in str(diagnosis.json())
    proposals = run_client.get(f"{RUNS}/{run_id}/proposals")
    assert proposals.status_code == 200, proposals.text
    assert proposals.json()["threshold"] == 1.15
    assert proposals.json()["imbalance"] == 1
    assert proposals.json()["notes"][0].startswith("Nothing is measured yet: all times are as post")
    look(database, keeper_of(database, settings))
    proposals = run_client.get(f"{RUNS}/{run_id}/proposals")
    assert proposals.json()["imbalance"] == 2
    assert "medians of 60 iterations, 0 to 59." in proposals.json()["notes"][0]
    report(run_client, run_id, range(60, 62), {1: 2.0})
    proposals = run_client.get(f"{RUNS}/{run_id}/proposals")
    assert "medians of 62 iterations, 0 to 61." in proposals.json()["notes"][0]


def test_nothing_is_said_of_a_run_without_a_plan(run_client: TestClient) -> None:
    run_id = start_run(run_client, planned=False)
    for part in ("diagnosis", "proposals"):
        answer = run_client.get(f"{RUNS}/{run_id}/{part}")
        assert problem_code(answer) == (409, "no_plan_yet")


def test_no_run_is_told_of_that_is_not_there(run_client: TestClient) -> None:
    for path in ("", "/plan", "/plan/1", "/plan/1/timeline", "/diagnosis", "/proposals"):
        for run_id in (NO_RUN, "none"):
            answer = run_client.get(f"{RUNS}/{run_id}{path}")
            assert problem_code(answer) == (404, "run_not_found")


TOO_LARGE = {
    **PROBLEM,
    "devices": [{"activation_memory_bytes": 100}] * 2,
    "stages": [{**stage, "activation_bytes": 150} for stage in PROBLEM["stages"]],
}


def test_a_problem_of_which_nothing_fits_is_refused_with_the_way_out(
    run_client: TestClient, database: Database
) -> None:
    refused = run_client.post(RUNS, json={"problem": TOO_LARGE})
    assert problem_code(refused) == (422, "invalid_request")
    (error,) = refused.json()["errors"]
    assert error["path"] == "problem"
    assert "no plan fits" in error["message"]
    assert error["remedy"]
    assert count(database, Job) == 0
    run_id = start_run(run_client)
    assert run_client.patch(f"{RUNS}/{run_id}", json={"problem": TOO_LARGE}).status_code == 422


def test_a_run_whose_first_solve_came_to_nothing_says_why(
    run_client: TestClient, database: Database, settings: Settings, attempts: Attempts
) -> None:
    run_id = start_run(run_client, planned=False)
    (solve_id,) = queued(database)
    order = attempts.claim(solve_id)
    assert order is not None
    document = {"problem": PROBLEM, "infeasibility": {"summary": "Nothing fits here."}}
    ending = Answered({"state": "infeasible", "document": document})
    attempts.end(order.fence, ending, Progress())
    look(database, keeper_of(database, settings))
    awaited = run_client.get(f"{RUNS}/{run_id}/plan")
    assert (awaited.status_code, awaited.json()["state"]) == (202, "none")
    assert "Nothing fits here" in awaited.json()["reason"]
    assert "PATCH" in awaited.json()["reason"]
    assert queued(database) == []


@pytest.mark.parametrize(("activation_bytes", "planned_for"), [(100, 980), (990, 1_000)])
def test_the_first_plan_leaves_the_headroom_where_that_fits(
    run_client: TestClient,
    database: Database,
    settings: Settings,
    attempts: Attempts,
    activation_bytes: int,
    planned_for: int,
) -> None:
    stages = [{**stage, "activation_bytes": activation_bytes} for stage in PROBLEM["stages"]]
    limits = [{"activation_memory_bytes": 1_000}] * 2
    body = {**PROBLEM, "devices": limits, "stages": stages}
    run_id = start_run(run_client, planned=False, problem=body)
    answer_solve(attempts, database)
    look(database, keeper_of(database, settings))
    plan = run_client.get(f"{RUNS}/{run_id}/plan").json()
    found = [device["activation_memory_bytes"] for device in plan["problem"]["devices"]]
    assert found == [planned_for] * 2
    is_told = any(e["kind"] == "no_headroom" for e in view(run_client, run_id)["events"])
    assert is_told is (planned_for == 1_000)
    with database.reading() as session:
        stored = session.scalars(
            select(RunDocument.text).where(
                RunDocument.run_id == run_id, RunDocument.name == "problem"
            )
        ).one()
    assert json.loads(stored)["devices"][0]["activation_memory_bytes"] == 1_000


def test_a_plan_that_exceeds_changed_limits_is_diagnosed(run_client: TestClient) -> None:
    stages = [{**stage, "activation_bytes": 100} for stage in PROBLEM["stages"]]
    roomy = {**PROBLEM, "devices": [{"activation_memory_bytes": 1_000}] * 2, "stages": stages}
    run_id = start_run(run_client, problem=roomy)
    tight = {**roomy, "devices": [{"activation_memory_bytes": 150}] * 2}
    report(run_client, run_id, range(10))

    def symptoms() -> list[str]:
        answer = run_client.get(f"{RUNS}/{run_id}/diagnosis").json()
        return [one["symptom"] for one in answer["symptoms"]]

    assert "out_of_memory" not in symptoms()
    run_client.patch(f"{RUNS}/{run_id}", json={"problem": tight})
    assert "out_of_memory" in symptoms()
