"""What is stored of what runs report: the first of what comes twice, nothing of what is wrong."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from app.database import Database
from app.repositories.run_telemetry import TelemetryRepository
from app.services.runs import telemetry as telemetry_service
from app.services.runs.keeper import RunKeeper
from app.services.runs.newest import FURTHEST_AHEAD, FURTHEST_FIRST
from app.settings import Settings
from tests.integration.following import (
    FOLLOW,
    PASS_NS,
    RUNS,
    STAGES,
    keeper_of,
    kinds,
    look,
    report,
    start_run,
    stored,
    telemetry,
    view,
)

NO_RUN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def keeper(database: Database, settings: Settings) -> RunKeeper:
    return keeper_of(database, settings)


def post(client: TestClient, run_id: str, body: Any) -> Any:
    return client.post(f"{RUNS}/{run_id}/telemetry", json=body)


def test_each_stage_of_each_iteration_is_stored_once(
    run_client: TestClient, database: Database
) -> None:
    run_id = start_run(run_client)
    answer = post(run_client, run_id, telemetry(3)).json()
    assert answer == {
        "accepted": STAGES,
        "known": 0,
        "late": 0,
        "newest_iteration": 3,
        "plan": {
            "version": 1,
            "state": "confirmed",
            "apply_at_iteration": 0,
            "running_version": 1,
        },
    }
    again = post(run_client, run_id, telemetry(3, {0: 9.0})).json()
    assert (again["accepted"], again["known"]) == (0, STAGES)
    assert stored(database, run_id)[3, 0]["forward_ns"] == PASS_NS


def test_order_does_not_matter(run_client: TestClient, database: Database) -> None:
    run_id = start_run(run_client)
    for iteration in (5, 2, 4, 2, 3):
        answer = post(run_client, run_id, telemetry(iteration)).json()
        assert answer["newest_iteration"] == 5
    assert sorted({iteration for iteration, _ in stored(database, run_id)}) == [2, 3, 4, 5]


def test_stages_of_one_iteration_may_come_from_several_ranks(
    run_client: TestClient, database: Database
) -> None:
    run_id = start_run(run_client)
    whole = telemetry(1)
    for stage in whole["stages"]:
        answer = post(run_client, run_id, {**whole, "stages": [stage]}).json()
        assert (answer["accepted"], answer["known"]) == (1, 0)
    assert set(stored(database, run_id)) == {(1, 0), (1, 1)}


def test_a_repeat_within_a_post_is_refused(run_client: TestClient, database: Database) -> None:
    run_id = start_run(run_client)
    body = {"iterations": [telemetry(1), telemetry(1)]}
    assert post(run_client, run_id, body).status_code == 422
    assert stored(database, run_id) == {}


def test_what_is_older_than_the_window_is_late(run_client: TestClient, database: Database) -> None:
    run_id = start_run(run_client, follow={**FOLLOW, "window": 20})
    report(run_client, run_id, range(99, 101))
    answer = report(run_client, run_id, range(79, 83))
    assert (answer["accepted"], answer["late"]) == (2 * STAGES, 2 * STAGES)
    assert min(stored(database, run_id)) == (81, 0)
    assert answer["newest_iteration"] == 100


MALFORMED: tuple[tuple[Any, str], ...] = (
    ({}, "iteration"),
    ({"iteration": 1, "stages": []}, "stages"),
    ({"iteration": 1, "stages": 5}, "stages"),
    ({"iteration": -1, "stages": [{"stage": 0}]}, "iteration"),
    ({"iteration": 1, "stages": [{"stage": 0, "forward_ns": -1}]}, "stages.0.forward_ns"),
    ({"iteration": 1, "stages": [{"stage": 0, "forward_ns": "1"}]}, "stages.0.forward_ns"),
    ({"iteration": 1, "stages": [{"stage": 0, "forward_ns": {}}]}, "stages.0.forward_ns"),
    ({"iteration": 1, "stages": [{"stage": 0, "link_busy_share": 2}]}, "stages.0.link_busy_share"),
    ({"iteration": 1, "stages": [{"stage": 0, "speed": 1}]}, "stages.0.speed"),
    ({"iteration": 1, "stages": [{"stage": STAGES, "forward_ns": 1}]}, "stages"),
    ({"iteration": 1, "stages": [{"stage": 0}]}, "stages.0"),
    ({"iteration": 1, "plan_version": 1, "stages": [{"stage": 0}]}, "stages.0"),
    ({"iterations": [{"iteration": 1, "stages": [{"stage": 0}]}] * 1001}, "iterations"),
)  # fmt: skip


@pytest.mark.parametrize(("body", "path"), MALFORMED)
def test_what_is_malformed_changes_nothing_and_names_the_field(
    run_client: TestClient, database: Database, body: Any, path: str
) -> None:
    run_id = start_run(run_client)
    refused = post(run_client, run_id, body)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["path"] == path
    assert refused.json()["errors"][0]["remedy"]
    assert stored(database, run_id) == {}
    assert run_client.get(f"{RUNS}/{run_id}").json()["newest_iteration"] is None


@pytest.mark.parametrize("raw", ['{"iteration": NaN}', '{"iteration": 1, "iteration": 2}', "["])
def test_what_is_no_json_changes_nothing(
    run_client: TestClient, database: Database, raw: str
) -> None:
    run_id = start_run(run_client)
    headers = {"Content-Type": "application/json"}
    refused = run_client.post(f"{RUNS}/{run_id}/telemetry", content=raw, headers=headers)
    assert refused.status_code == 400
    assert stored(database, run_id) == {}


def test_an_iteration_far_ahead_is_a_mistake(run_client: TestClient, database: Database) -> None:
    run_id = start_run(run_client)
    # A run that is resumed begins far from 0.
    first = FURTHEST_FIRST - 1
    refused = post(run_client, run_id, telemetry(first + 2))
    assert refused.json()["errors"][0]["path"] == "iteration"
    report(run_client, run_id, range(first, first + 2))
    ahead = FURTHEST_FIRST + FURTHEST_AHEAD
    refused = post(run_client, run_id, telemetry(ahead + 1))
    assert refused.status_code == 422
    assert "another run" in refused.json()["errors"][0]["remedy"]
    assert post(run_client, run_id, telemetry(ahead)).status_code == 200


def test_one_wrong_iteration_makes_nothing_late(run_client: TestClient, database: Database) -> None:
    run_id = start_run(run_client, follow={**FOLLOW, "window": 20})
    report(run_client, run_id, range(99, 101))
    wrong = telemetry(5_000)
    one = post(run_client, run_id, {**wrong, "stages": wrong["stages"][:1]}).json()
    assert (one["accepted"], one["newest_iteration"]) == (1, 100)
    assert report(run_client, run_id, range(101, 103))["newest_iteration"] == 102
    # Both stages may have it from one report: all are there where they go on from there.
    other = post(run_client, run_id, {**wrong, "stages": wrong["stages"][1:]}).json()
    assert (other["accepted"], other["newest_iteration"]) == (1, 102)
    assert report(run_client, run_id, range(103, 104))["late"] == 0
    assert report(run_client, run_id, range(5_001, 5_002))["newest_iteration"] == 5_001


@pytest.mark.parametrize("stages", [1, STAGES])
def test_a_wrong_first_iteration_is_dropped_and_told_of(
    run_client: TestClient, database: Database, keeper: RunKeeper, stages: int
) -> None:
    run_id = start_run(run_client)
    wrong = telemetry(5_000_000)
    first = post(run_client, run_id, {**wrong, "stages": wrong["stages"][:stages]}).json()
    assert (first["accepted"], first["newest_iteration"]) == (stages, None)
    look(database, keeper)
    # Which of the two is wrong shows by what follows.
    assert report(run_client, run_id, range(1))["newest_iteration"] is None
    answer = report(run_client, run_id, range(1, 40))
    assert (answer["late"], answer["newest_iteration"]) == (0, 39)
    assert max(stored(database, run_id)) == (39, STAGES - 1)
    look(database, keeper)
    shown = view(run_client, run_id)
    dropped = shown["events"][0]
    assert (dropped["kind"], dropped["iteration"]) == ("iterations_dropped", 39)
    assert "5000000" in dropped["detail"]
    assert shown["stages"][0]["quantities"]["forward_ns"]["samples"] == 40


def test_a_run_that_is_resumed_outlives_a_first_report_from_0(
    run_client: TestClient, database: Database
) -> None:
    run_id = start_run(run_client)
    assert post(run_client, run_id, telemetry(700_000)).json()["newest_iteration"] is None
    assert post(run_client, run_id, telemetry(0)).json()["newest_iteration"] is None
    assert post(run_client, run_id, telemetry(700_001)).json()["newest_iteration"] == 700_001
    assert min(stored(database, run_id)) == (700_000, 0)
    assert "iterations_dropped" in kinds(run_client, run_id)


def test_where_everything_comes_too_late_an_event_says_so_once(run_client: TestClient) -> None:
    run_id = start_run(run_client)
    report(run_client, run_id, range(500, 502))
    for iterations in (range(5), range(5, 9)):
        assert report(run_client, run_id, iterations)["late"] == STAGES * len(iterations)
    assert "all_late" not in kinds(run_client, run_id)
    for iteration in range(9, 30):
        report(run_client, run_id, range(iteration, iteration + 1))
    assert kinds(run_client, run_id).count("all_late") == 1
    event = view(run_client, run_id)["events"][0]
    assert "10 iterations reported, up to 9," in event["detail"]
    assert "the newest is 501" in event["detail"]
    # What is of use in between begins the count anew.
    report(run_client, run_id, range(502, 503))
    report(run_client, run_id, range(30, 39))
    assert kinds(run_client, run_id).count("all_late") == 1


def test_a_stage_that_reports_alone_confirms_itself(run_client: TestClient) -> None:
    run_id = start_run(run_client)
    for iteration, newest in ((7, 7), (900, 7), (901, 900), (902, 902)):
        alone = telemetry(iteration)
        answer = post(run_client, run_id, {**alone, "stages": alone["stages"][:1]}).json()
        assert answer["newest_iteration"] == newest


def test_runs_that_are_stopped_or_not_there_take_nothing(
    run_client: TestClient, database: Database
) -> None:
    assert post(run_client, NO_RUN, telemetry(1)).json()["code"] == "run_not_found"
    assert post(run_client, "no-uuid", telemetry(1)).status_code == 404
    run_id = start_run(run_client)
    run_client.delete(f"{RUNS}/{run_id}")
    refused = post(run_client, run_id, telemetry(1))
    assert (refused.status_code, refused.json()["code"]) == (409, "run_stopped")
    assert stored(database, run_id) == {}


def test_posts_that_come_together_are_stored_together_and_answered_apart(
    run_client: TestClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_ids = [start_run(run_client) for _ in range(3)]
    transactions: list[int] = []
    insert = TelemetryRepository.insert

    def noted(self: TelemetryRepository, rows: Any) -> Any:
        transactions.append(len(rows))
        return insert(self, rows)

    monkeypatch.setattr(TelemetryRepository, "insert", noted)

    def one(number: int) -> Any:
        if number % 10 == 9:
            return post(run_client, NO_RUN, telemetry(number))
        # Every other post is of an iteration that another one posts too.
        return post(run_client, run_ids[number % 3], telemetry(number // 6))

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(one, range(60)))
    assert [answer.status_code for answer in answers] == [
        404 if number % 10 == 9 else 200 for number in range(60)
    ]
    taken = [answer.json() for answer in answers if answer.status_code == 200]
    rows = sum(len(stored(database, run_id)) for run_id in run_ids)
    assert sum(one["accepted"] for one in taken) == rows
    assert sum(one["accepted"] + one["known"] for one in taken) == STAGES * len(taken)
    assert len(transactions) <= len(taken)


def test_a_database_that_fails_stores_nothing_and_says_so(
    run_client: TestClient, database: Database
) -> None:
    run_id = start_run(run_client)
    with database.writing() as session:
        session.execute(text("ALTER TABLE run_telemetry RENAME TO away"))
    try:
        refused = post(run_client, run_id, telemetry(1))
        assert (refused.status_code, refused.json()["code"]) == (503, "database_unavailable")
        assert "Retry-After" in refused.headers
    finally:
        with database.writing() as session:
            session.execute(text("ALTER TABLE away RENAME TO run_telemetry"))
    assert run_client.get(f"{RUNS}/{run_id}").json()["newest_iteration"] is None
    assert report(run_client, run_id, range(1, 2))["accepted"] == STAGES


def test_too_much_that_waits_is_refused(
    run_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = start_run(run_client)
    monkeypatch.setattr(telemetry_service, "MOST_WAITING", STAGES - 1)
    assert post(run_client, run_id, telemetry(1)).status_code == 503
