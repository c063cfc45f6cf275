"""Who looks after runs: what a look carries out, whatever dies or fails meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from app.database import Database
from app.models import Job, Run, RunVersion, Solve
from app.repositories.run_looks import RunLooks
from app.repositories.run_telemetry import TelemetryRepository
from app.repositories.runs import RunRepository
from app.services.attempts import Attempts, Progress
from app.services.runs import looking
from app.services.runs.keeper import RunKeeper
from app.services.tenants import Tenants
from app.settings import Settings
from tests.integration.fakes import START
from tests.integration.following import (
    FOLLOW,
    PROBLEM,
    RUNS,
    STAGES,
    acknowledge,
    answer_solve,
    keeper_of,
    kinds,
    look,
    ops,
    queued,
    report,
    start_run,
    stored,
    telemetry,
    view,
)
from tests.integration.helpers import eventually, set_columns, solve_row

SLOW = {1: 1.5}
LONG_S = 60


@pytest.fixture
def keeper(database: Database, settings: Settings) -> RunKeeper:
    return keeper_of(database, settings)


@pytest.fixture
def drifted(run_client: TestClient, database: Database, keeper: RunKeeper) -> str:
    """A run that has drifted, so that a solve waits."""
    run_id = start_run(run_client, name="a run")
    report(run_client, run_id, range(30))
    look(database, keeper)
    report(run_client, run_id, range(30, 60), SLOW)
    look(database, keeper)
    assert len(queued(database)) == 1
    return run_id


def newest(client: TestClient, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = view(client, run_id)["versions"][0]
    return found


def test_drift_asks_for_a_solve_that_starts_from_the_running_plan(
    run_client: TestClient, database: Database, drifted: str
) -> None:
    (solve_id,) = queued(database)
    solve = solve_row(database, solve_id)
    start = json.loads(solve.started_from or "")
    assert start["origin"]["kind"] == "running_plan"
    assert (start["origin"]["run_id"], start["origin"]["version"]) == (drifted, 1)
    assert len(start["origin"]["noise"]) == STAGES
    assert {tuple(op.values()) for op in start["schedule"]["ops"]} == {
        tuple(op.values()) for op in ops()
    }
    problem = json.loads(solve.spec)["candidates"][0]["problem"]
    assert problem["stages"][1]["forward_ns"] == 1500
    # Nobody else's request is answered by a plan that depends on what a run did before.
    assert not solve.reusable
    shown = view(run_client, drifted)["re_solve"]
    assert shown["reason"] == "stage_time_drift"
    job = run_client.get(f"/v1/jobs/{shown['job_id']}").json()
    assert (job["name"], job["tags"]) == ("a run: iteration 59", [f"run:{drifted}"])


def test_a_worthwhile_plan_is_published_scheduled_and_run(
    run_client: TestClient, database: Database, attempts: Attempts, keeper: RunKeeper, drifted: str
) -> None:
    for rank in range(STAGES):
        run_client.post(f"{RUNS}/{drifted}/plan/1/ack", json={"rank": rank, "iteration": 0})
    look(database, keeper)
    solve_id = answer_solve(attempts, database, gain=0.2)
    look(database, keeper)
    version = newest(run_client, drifted)
    assert (version["version"], version["state"]) == (2, "published")
    assert (version["predicted_gain"], version["gain_low"]) == (0.2, 0.2)
    with database.reading() as session:
        job = session.scalars(select(Job).where(Job.solve_id == solve_id)).one()
    assert version["job_id"] == job.id
    plan = run_client.get(f"{RUNS}/{drifted}/plan").json()
    assert plan["problem"]["stages"][1]["forward_ns"] == 1500
    acknowledge(run_client, drifted, 2, iteration=61)
    look(database, keeper)
    version = newest(run_client, drifted)
    assert (version["state"], version["apply_at_iteration"]) == ("scheduled", 61 + 5)
    report(run_client, drifted, range(60, 70), SLOW)
    look(database, keeper)
    answer = report(run_client, drifted, range(70, 71), SLOW)
    assert answer["plan"] == {
        "version": 2, "state": "running", "apply_at_iteration": 66, "running_version": 2,
    }  # fmt: skip


def running(client: TestClient, database: Database, attempts: Attempts, run_id: str) -> None:
    """Version 2 runs from iteration 66 on; it was to save a fifth."""
    keeper = keeper_of(database, client.app.state.services.settings)  # type: ignore[attr-defined]
    answer_solve(attempts, database, gain=0.2)
    look(database, keeper)
    acknowledge(client, run_id, 2, iteration=61)
    look(database, keeper)
    report(client, run_id, range(60, 68), SLOW)
    look(database, keeper)
    assert newest(client, run_id)["state"] == "running"


def test_a_straggler_that_the_running_version_has_taken_up_is_still_diagnosed(
    run_client: TestClient, database: Database, attempts: Attempts, drifted: str
) -> None:
    running(run_client, database, attempts, drifted)
    report(run_client, drifted, range(68, 100), SLOW)
    plan = run_client.get(f"{RUNS}/{drifted}/plan").json()
    assert plan["problem"]["stages"][1]["forward_ns"] == 1500
    found = run_client.get(f"{RUNS}/{drifted}/diagnosis").json()
    assert [one["symptom"] for one in found["symptoms"]] == ["plan_with_bad_throughput"]
    (straggler,) = (one for one in found["causes"] if one["cause"] == "straggler_gpu")
    assert straggler["state"] == "supported"
    # Over the median of two, 1 and 1.5.
    assert straggler["evidence"][0]["value"] == pytest.approx(1.2)
    (compared,) = (one for one in found["assumptions"] if one["what"] == "comparison")
    assert "version 2" in compared["value"]


def test_the_list_of_runs_has_what_the_running_version_gains(
    run_client: TestClient, database: Database, attempts: Attempts, keeper: RunKeeper, drifted: str
) -> None:
    def gains() -> list[tuple[float | None, float | None]]:
        runs = run_client.get(RUNS).json()["runs"]
        return [(run["predicted_gain"], run["measured_gain"]) for run in runs]

    answer_solve(attempts, database, gain=0.2)
    look(database, keeper)
    assert gains() == [(None, None)]
    acknowledge(run_client, drifted, 2, iteration=61)
    look(database, keeper)
    report(run_client, drifted, range(60, 68), SLOW)
    look(database, keeper)
    assert gains() == [(0.2, None)]
    report(run_client, drifted, range(68, 90), SLOW)
    look(database, keeper)
    ((predicted, measured),) = gains()
    assert predicted == 0.2
    assert measured == pytest.approx(newest(run_client, drifted)["measured_gain"])
    assert measured is not None


def test_an_acknowledgement_of_what_is_being_rolled_back_is_told_of_the_newest(
    run_client: TestClient, database: Database, attempts: Attempts, keeper: RunKeeper, drifted: str
) -> None:
    running(run_client, database, attempts, drifted)
    slower = [
        telemetry(number, SLOW) | {"iteration_ns": 16_000, "plan_version": 2}
        for number in range(68, 90)
    ]
    posted = run_client.post(f"{RUNS}/{drifted}/telemetry", json={"iterations": slower})
    assert posted.status_code == 200
    path = f"{RUNS}/{drifted}/plan"
    # Nobody has looked yet, so that it still runs.
    late = run_client.post(f"{path}/2/ack", json={"rank": 0, "iteration": 88})
    assert (late.status_code, late.json()["state"]) == (200, "running")
    look(database, keeper)
    assert [own["state"] for own in view(run_client, drifted)["versions"][:2]] == [
        "published", "rolled_back",
    ]  # fmt: skip
    late = run_client.post(f"{path}/2/ack", json={"rank": 1, "iteration": 89})
    assert (late.status_code, late.json()["code"]) == (409, "version_superseded")
    assert late.json()["newest_version"] == 3
    plan = run_client.get(path).json()
    assert (plan["version"], plan["reason"], plan["copy_of"]) == (3, "rolled_back", 1)
    drawn = run_client.get(f"{path}/3/timeline").json()
    assert drawn["ops"] == run_client.get(f"{path}/1/timeline").json()["ops"]
    acknowledge(run_client, drifted, 3, iteration=90)
    look(database, keeper)
    assert newest(run_client, drifted)["state"] == "scheduled"


def test_stopping_a_run_cancels_the_solve_of_its_fresh_profile(
    run_client: TestClient, database: Database, keeper: RunKeeper, drifted: str
) -> None:
    job_id = view(run_client, drifted)["re_solve"]["job_id"]
    assert run_client.delete(f"{RUNS}/{drifted}").json()["state"] == "stopped"
    assert run_client.get(f"/v1/jobs/{job_id}").json()["state"] == "cancelled"
    assert queued(database) == []
    assert look(database, keeper) == 0
    assert view(run_client, drifted)["re_solve"] is None


@pytest.mark.parametrize("is_over", [False, True])
def test_another_shape_takes_the_place_of_the_solve_in_flight(
    run_client: TestClient,
    database: Database,
    attempts: Attempts,
    keeper: RunKeeper,
    drifted: str,
    is_over: bool,
) -> None:
    job_id = view(run_client, drifted)["re_solve"]["job_id"]
    if is_over:
        # Its plan is of the old shape, and comes too late.
        answer_solve(attempts, database, gain=0.2)
    smaller = {**PROBLEM, "devices": [{}], "stages": PROBLEM["stages"][:1]}
    assert run_client.patch(f"{RUNS}/{drifted}", json={"problem": smaller}).status_code == 200
    look(database, keeper)
    state = run_client.get(f"/v1/jobs/{job_id}").json()["state"]
    assert state == ("succeeded" if is_over else "cancelled")
    shown = view(run_client, drifted)
    assert [own["version"] for own in shown["versions"]] == [1]
    assert shown["re_solve"]["reason"] == "shape_change"
    assert shown["re_solve"]["job_id"] != job_id
    (solve_id,) = queued(database)
    problem = json.loads(solve_row(database, solve_id).spec)["candidates"][0]["problem"]
    assert len(problem["stages"]) == 1


def test_two_processes_that_look_at_once_do_everything_once(
    run_client: TestClient,
    database: Database,
    database_url: str,
    settings: Settings,
    attempts: Attempts,
) -> None:
    run_id = start_run(run_client)
    environment = {
        **os.environ,
        "LOADMASTER_DATABASE_URL": database_url,
        "LOADMASTER_DATA_DIR": str(settings.data_dir),
    }
    command = [sys.executable, "-m", "tests.integration.run_keeper_process", run_id]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    keepers = [subprocess.Popen(command, env=environment, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    try:
        for process in keepers:
            assert process.stdout.readline() == "looks\n"
        report(run_client, run_id, range(30))
        report(run_client, run_id, range(30, 60), SLOW)
        eventually(lambda: len(queued(database)) == 1)
        answer_solve(attempts, database, gain=0.2)
        eventually(lambda: newest(run_client, run_id)["version"] == 2)
        acknowledge(run_client, run_id, 2, iteration=61)
        eventually(lambda: newest(run_client, run_id)["state"] == "scheduled")
        report(run_client, run_id, range(60, 68), SLOW)
        eventually(lambda: newest(run_client, run_id)["state"] == "running")
        ends = [process.communicate(timeout=LONG_S)[0] for process in keepers]
    finally:
        for process in keepers:
            process.kill()
            process.wait()
    assert [process.returncode for process in keepers] == [0, 0], ends
    happened = ["created", "solve_asked", "published", "scheduled", "running"]
    assert kinds(run_client, run_id) == happened
    assert queued(database) == []
    with database.reading() as session:
        assert len(session.scalars(select(Job.id)).all()) == 1


def test_a_plan_that_is_not_worth_it_is_not_published(
    run_client: TestClient, database: Database, attempts: Attempts, keeper: RunKeeper, drifted: str
) -> None:
    answer_solve(attempts, database, gain=0.001)
    look(database, keeper)
    assert newest(run_client, drifted)["version"] == 1
    assert "refused" in kinds(run_client, drifted)
    assert view(run_client, drifted)["re_solve"] is None


def test_another_least_gain_asks_again_for_what_was_refused(
    run_client: TestClient, database: Database, attempts: Attempts, keeper: RunKeeper, drifted: str
) -> None:
    answer_solve(attempts, database, gain=0.01)
    look(database, keeper)
    report(run_client, drifted, range(60, 62), SLOW)
    look(database, keeper)
    assert queued(database) == []
    # It has still drifted from what the running plan was made for.
    forward = view(run_client, drifted)["stages"][1]["quantities"]["forward_ns"]
    assert (forward["planned"], forward["drift"]["before"]) == (1000, 1000)
    changes = {"follow": {"min_gain": 0.005}}
    assert run_client.patch(f"{RUNS}/{drifted}", json=changes).status_code == 200
    look(database, keeper)
    answer_solve(attempts, database, gain=0.01)
    look(database, keeper)
    assert newest(run_client, drifted)["state"] == "published"


def test_there_is_one_solve_in_flight_and_one_of_an_older_profile_is_cancelled(
    run_client: TestClient, database: Database, keeper: RunKeeper, drifted: str
) -> None:
    (first,) = queued(database)
    report(run_client, drifted, range(60, 63), SLOW)
    look(database, keeper)
    assert queued(database) == [first]
    report(run_client, drifted, range(63, 140), {1: 4.0})
    look(database, keeper)
    (second,) = queued(database)
    assert second != first
    assert solve_row(database, first).state == "cancelled"


def test_the_same_look_twice_does_nothing_the_second_time(
    run_client: TestClient, database: Database, settings: Settings, keeper: RunKeeper, drifted: str
) -> None:
    before = view(run_client, drifted)
    with database.writing() as session:
        session.execute(update(Run).values(news=Run.news + 1))
    for someone in (keeper, keeper_of(database, settings)):
        # Others wait for whoever looked last, and then take over.
        with database.writing() as session:
            session.execute(update(Run).values(look_after=0, news=Run.news + 1))
        assert someone.round() == 1
    assert view(run_client, drifted) == before
    assert len(queued(database)) == 1


class Died(BaseException):
    """Nothing more is done, as after kill -9."""


@pytest.mark.parametrize("step", ["change", "add_version", "change_version", "add_events"])
def test_a_keeper_that_dies_in_a_look_leaves_nothing_half_done(
    run_client: TestClient,
    database: Database,
    settings: Settings,
    attempts: Attempts,
    keeper: RunKeeper,
    drifted: str,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    answer_solve(attempts, database, gain=0.2)
    with monkeypatch.context() as patch:
        original = getattr(RunRepository, step)

        def die(self: RunRepository, *args: Any, **kwargs: Any) -> Any:
            original(self, *args, **kwargs)
            raise Died

        patch.setattr(RunRepository, step, die)
        if step == "change_version":
            # Reached once a version changes: let it be scheduled first.
            patch.undo()
            look(database, keeper)
            acknowledge(run_client, drifted, 2, iteration=60)
            patch.setattr(RunRepository, step, die)
        with pytest.raises(Died):
            look(database, keeper)
    expected = "published" if step == "change_version" else "confirmed"
    assert newest(run_client, drifted)["state"] == expected
    look(database, keeper_of(database, settings))
    assert newest(run_client, drifted)["version"] == 2
    assert len(view(run_client, drifted)["versions"]) == 2


def test_a_keeper_that_dies_as_it_asks_for_a_solve_has_asked_for_none_or_for_one(
    run_client: TestClient,
    database: Database,
    settings: Settings,
    keeper: RunKeeper,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_id = start_run(run_client)
    report(run_client, run_id, range(30))
    look(database, keeper)
    report(run_client, run_id, range(30, 60), SLOW)
    remember = looking.Looker._remember

    def die(*args: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        # After the commit: the solve is there, and noted.
        patch.setattr(looking.Looker, "_remember", die)
        with pytest.raises(Died):
            look(database, keeper)
    assert looking.Looker._remember is remember
    look(database, keeper_of(database, settings))
    assert len(queued(database)) == 1


def test_whoever_is_overtaken_does_nothing(
    run_client: TestClient,
    database: Database,
    settings: Settings,
    keeper: RunKeeper,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_id = start_run(run_client)
    report(run_client, run_id, range(30))
    look(database, keeper)
    report(run_client, run_id, range(30, 60), SLOW)
    other = keeper_of(database, settings)
    carry_out = looking.Looker._carry_out
    is_first = True

    def be_overtaken(self: looking.Looker, *args: Any) -> bool:
        nonlocal is_first
        if is_first:
            is_first = False
            args[0].rollback()
            assert other._looker.look(run_id)
        return carry_out(self, *args)

    monkeypatch.setattr(looking.Looker, "_carry_out", be_overtaken)
    look(database, keeper)
    assert len(queued(database)) == 1
    assert kinds(run_client, run_id).count("solve_asked") == 1


def test_a_look_that_was_claimed_and_never_made_is_made_by_the_next(
    run_client: TestClient, database: Database, settings: Settings, keeper: RunKeeper
) -> None:
    start_run(run_client)
    with database.writing() as session:
        (due,) = RunLooks(session).due(keeper.name, 10)
        assert RunLooks(session).claim(due, 60_000)
        assert not RunLooks(session).claim(due, 60_000)
    assert keeper.round() == 0
    with database.writing() as session:
        session.execute(update(Run).values(look_after=Run.look_after - 60_000))
    assert keeper.round() == 1


def test_others_leave_a_run_to_whoever_looked_last_unless_it_is_gone(
    run_client: TestClient, database: Database, settings: Settings, keeper: RunKeeper
) -> None:
    run_id = start_run(run_client)
    look(database, keeper)
    report(run_client, run_id, range(3))
    other = keeper_of(database, settings)
    with database.writing() as session:
        session.execute(update(Run).values(look_after=Run.look_after - 1_500))
    assert other.round() == 0
    with database.writing() as session:
        session.execute(update(Run).values(look_after=Run.look_after - 10_000))
    assert other.round() == 1


def test_only_what_is_new_is_read_and_what_is_old_is_not_kept(
    run_client: TestClient,
    database: Database,
    keeper: RunKeeper,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_id = start_run(run_client, follow={**FOLLOW, "window": 20})
    report(run_client, run_id, range(20))
    look(database, keeper)
    read: list[int] = []
    window = TelemetryRepository.window

    def noted(self: TelemetryRepository, run_id: str, first: int) -> Any:
        rows = window(self, run_id, first)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(TelemetryRepository, "window", noted)
    report(run_client, run_id, range(20, 25))
    look(database, keeper)
    assert read == [5 * STAGES]
    monkeypatch.undo()
    assert sorted({iteration for iteration, _ in stored(database, run_id)}) == list(range(5, 25))


def test_the_fault_of_one_run_does_not_stop_the_others(
    run_client: TestClient, database: Database, keeper: RunKeeper
) -> None:
    broken, whole = start_run(run_client), start_run(run_client)
    with database.writing() as session:
        RunRepository(session).set_document(broken, "state", "no JSON")
    for run_id in (broken, whole):
        report(run_client, run_id, range(30))
    look(database, keeper)
    with database.reading() as session:
        looked = dict(session.execute(select(Run.id, Run.looked)).all())
    assert looked[whole] > 0
    assert looked[broken] == 0
    # It is not tried again at once.
    assert keeper.round() == 0


def test_a_full_queue_is_waited_for(
    run_client: TestClient, database: Database, keeper: RunKeeper
) -> None:
    Tenants(database).change("a test", "default", {"max_queued": 0})
    run_id = start_run(run_client)
    report(run_client, run_id, range(30))
    look(database, keeper)
    report(run_client, run_id, range(30, 60), SLOW)
    look(database, keeper)
    assert queued(database) == []
    assert "solve_asked" not in kinds(run_client, run_id)
    Tenants(database).change("a test", "default", {"max_queued": 10})
    look(database, keeper)
    assert len(queued(database)) == 1
    assert kinds(run_client, run_id).count("solve_asked") == 1


def test_an_outage_of_the_database_is_outlived(
    run_client: TestClient, database: Database, keeper: RunKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = start_run(run_client)
    report(run_client, run_id, range(30))
    look(database, keeper)
    report(run_client, run_id, range(30, 60), SLOW)

    def away(*args: Any) -> None:
        raise OperationalError("SELECT", {}, Exception("away"))

    with monkeypatch.context() as patch:
        patch.setattr(RunRepository, "set_document", away)
        with pytest.raises(OperationalError):
            look(database, keeper)
    assert queued(database) == []
    look(database, keeper)
    assert len(queued(database)) == 1


def test_a_job_that_was_removed_counts_as_cancelled(
    run_client: TestClient, database: Database, keeper: RunKeeper, drifted: str
) -> None:
    job_id = view(run_client, drifted)["re_solve"]["job_id"]
    run_client.delete(f"/v1/jobs/{job_id}")
    assert run_client.delete(f"/v1/jobs/{job_id}?purge=true").status_code == 204
    look(database, keeper)
    assert view(run_client, drifted)["re_solve"] is None
    assert "solve_failed" in kinds(run_client, drifted)


def test_a_solve_that_fails_is_told_of_and_others_follow(
    run_client: TestClient, database: Database, keeper: RunKeeper, drifted: str
) -> None:
    error = json.dumps({"code": "out_of_memory", "detail": "too much", "log_tail": []})
    set_columns(database, state="failed", error=error, finished_at=1)
    look(database, keeper)
    events = view(run_client, drifted)["events"]
    assert any(e["kind"] == "solve_failed" and "too much" in e["detail"] for e in events)


def test_plans_of_old_versions_are_not_kept_for_ever(
    run_client: TestClient,
    database: Database,
    attempts: Attempts,
    keeper: RunKeeper,
    drifted: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looking, "PLANS_KEPT", 1)
    # Version 1 runs, and is kept for that.
    answer_solve(attempts, database, gain=0.2)
    look(database, keeper)
    with database.reading() as session:
        kept = session.scalars(
            select(RunVersion.version).where(RunVersion.document.is_not(None))
        ).all()
    assert sorted(kept) == [1, 2]
    with database.writing() as session:
        RunRepository(session).forget_plans(drifted, 2, [])
    gone = run_client.get(f"{RUNS}/{drifted}/plan/1")
    assert (gone.status_code, gone.json()["code"]) == (404, "version_not_found")
    assert run_client.get(f"{RUNS}/{drifted}/plan/1?brief=true").status_code == 200


def test_the_keepers_thread_follows_by_itself(
    run_client: TestClient, keeper: RunKeeper, database: Database, attempts: Attempts
) -> None:
    run_id = start_run(run_client, planned=False)
    answer_solve(attempts, database)
    keeper.start()
    try:
        eventually(lambda: run_client.get(f"{RUNS}/{run_id}/plan").status_code == 200)
        acknowledge(run_client, run_id, 1)
        eventually(lambda: view(run_client, run_id)["versions"][0]["state"] == "scheduled")
    finally:
        keeper.stop()


def test_a_solve_that_is_tried_again_starts_from_the_running_plan_again(
    database: Database, attempts: Attempts, drifted: str
) -> None:
    (solve_id,) = queued(database)
    order = attempts.claim(solve_id)
    assert order is not None
    attempts.renew(order.fence, Progress(incumbent=START, objective=9000))
    set_columns(database, state="queued", lease_until=None)
    again = attempts.claim(solve_id)
    assert again is not None
    assert again.start is not None
    assert again.start["origin"]["kind"] == "running_plan"


def test_a_solve_of_a_run_answers_nobody_else(
    run_client: TestClient, database: Database, attempts: Attempts, drifted: str
) -> None:
    (solve_id,) = queued(database)
    solve = solve_row(database, solve_id)
    spec = json.loads(solve.spec)
    body = {
        "problem": spec["candidates"][0]["problem"],
        "solver": {"time_limit_s": spec["options"]["time_limit_s"]},
    }
    for _ in range(2):
        answer = run_client.post("/v1/pipeline-schedules", json=body).json()
    assert answer["cache"] == "joined"
    with database.reading() as session:
        ids = session.scalars(
            select(Solve.id).where(Solve.spec_hash == solve.spec_hash, Solve.reusable)
        ).all()
    assert len(ids) == 1
    assert ids[0] != solve_id
