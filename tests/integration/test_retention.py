"""What expires, what stays, and that nothing is removed that waits, runs or is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select, text, update
from starlette.testclient import TestClient

from app.database import Database
from app.models import (
    AuditEntry,
    Base,
    Batch,
    BatchJob,
    DeliveryState,
    IdempotencyKey,
    Job,
    JobTag,
    Run,
    RunAck,
    RunDocument,
    RunEvent,
    RunTelemetry,
    RunVersion,
    Solve,
    SolveEvent,
    SolveLogLine,
    Webhook,
    WebhookAttempt,
)
from app.services import retention
from app.services.attempts import Attempts, Progress
from app.services.retention import Retention
from app.services.transitions import Answered
from app.settings import Settings
from tests.integration.fakes import succeeded
from tests.integration.following import RUNS, acknowledge, report, start_run
from tests.integration.helpers import claim, finish, job, post, set_columns

DAY_MS = 86_400_000
NOTHING: dict[str, float] = {
    "keep_runs_days": 0,
    "keep_jobs_days": 0,
    "keep_jobs": 0,
    "keep_logs_days": 0,
    "keep_answers_days": 0,
    "keep_audit_days": 0,
}


def expire(database: Database, settings: Settings, **keep: float) -> dict[str, int]:
    """Remove what these settings let expire."""
    chosen = settings.model_copy(update={**NOTHING, **keep})
    return dict(Retention(database, chosen).remove_all())


def age(database: Database, days: float, *tables: type[Base]) -> None:
    """Let everything in these tables have happened so many days ago."""
    instants = (
        "stopped_at",
        "telemetry_at",
        "created_at",
        "finished_at",
        "asked_at",
        "cancelled_at",
        "at",
        "started_at",
    )
    with database.writing() as session:
        for table in tables:
            columns = [name for name in instants if name in table.__table__.columns]
            values = {name: text(f"{name} - {days * DAY_MS:.0f}") for name in columns}
            session.execute(update(table).values(values))


def count(database: Database, *tables: type[Base]) -> list[int]:
    with database.reading() as session:
        return [session.scalars(select(func.count()).select_from(t)).one() for t in tables]


def everything_of_a_job(client: TestClient, attempts: Attempts, database: Database) -> str:
    """A finished job with a row in every table that can be a job's; its id."""
    made = post(client, name="old", tags=["a", "b"], headers={"Idempotency-Key": "key-1"})
    order = claim(attempts, database)
    attempts.end(order.fence, Answered(succeeded()), Progress(log_lines=["one", "two"]))
    with database.writing() as session:
        session.add(
            Webhook(
                id="w1",
                job_id=made["id"],
                url="https://a.example/",
                origin="https://a.example:443",
                state=DeliveryState.DELIVERED,
            )
        )
        session.add(Batch(id="b1"))
        session.flush()
        session.add(WebhookAttempt(webhook_id="w1", number=1, duration_ms=3))
        session.add(BatchJob(batch_id="b1", position=0, job_id=made["id"]))
    return str(made["id"])


OF_A_JOB = (Job, JobTag, Webhook, WebhookAttempt, Batch, BatchJob)
OF_A_SOLVE = (Solve, SolveLogLine, SolveEvent)


def test_a_finished_job_goes_with_everything_that_is_its(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    job_id = everything_of_a_job(client, attempts, database)
    assert 0 not in count(database, *OF_A_JOB, *OF_A_SOLVE, IdempotencyKey)
    assert expire(database, settings, keep_jobs_days=1) == {}
    age(database, 2, Job, Solve)
    assert expire(database, settings, keep_jobs_days=3) == {}
    assert expire(database, settings, keep_jobs_days=1) == {"jobs": 1}
    assert set(count(database, *OF_A_JOB, IdempotencyKey)) == {0}
    # Its answer is kept by a rule of its own.
    assert 0 not in count(database, *OF_A_SOLVE)
    assert client.get(f"/v1/jobs/{job_id}").status_code == 404
    assert post(client)["cache"] == "hit"


def test_a_batch_stays_until_its_last_job_goes(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    everything_of_a_job(client, attempts, database)
    age(database, 2, Job, Solve)
    newer = post(client, "another one")
    finish(attempts, database)
    with database.writing() as session:
        session.add(BatchJob(batch_id="b1", position=1, job_id=newer["id"]))
    assert expire(database, settings, keep_jobs_days=1) == {"jobs": 1}
    assert count(database, Batch, BatchJob) == [1, 1]
    age(database, 2, Job, Solve)
    assert expire(database, settings, keep_jobs_days=1) == {"jobs": 1}
    assert count(database, Batch, BatchJob) == [0, 0]


def test_nothing_goes_that_waits_runs_or_has_to_be_told(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    ids = [post(client, script)["id"] for script in ("runs", "stops", "is told")]
    finish(attempts, database)
    with database.writing() as session:
        told = {"url": "https://a.example/", "origin": "x", "state": DeliveryState.PENDING}
        session.add(Webhook(id="w1", job_id=ids[2], **told))
        by_job = dict(session.execute(select(Job.id, Job.solve_id)).all())
    for job_id in ids[:2]:
        assert attempts.claim(by_job[job_id]) is not None
    client.delete(f"/v1/jobs/{ids[1]}")
    ids.append(post(client, "waits")["id"])
    age(database, 1000, Job, Solve)
    keep = {"keep_jobs_days": 1, "keep_answers_days": 1, "keep_logs_days": 1}
    assert expire(database, settings, **keep).get("jobs", 0) == 0
    assert [job(client, job_id)["state"] for job_id in ids] == [
        "running",
        "running",
        "succeeded",
        "queued",
    ]
    with database.writing() as session:
        session.execute(update(Webhook).values(state=DeliveryState.DELIVERED))
    assert expire(database, settings, keep_jobs_days=1) == {"jobs": 1}


def test_a_job_that_was_cancelled_is_over_though_its_solve_goes_on_for_another(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    left, stays = post(client), post(client)
    claim(attempts, database)
    client.delete(f"/v1/jobs/{left['id']}")
    age(database, 2, Job)
    assert expire(database, settings, keep_jobs_days=1, keep_answers_days=1) == {"jobs": 1}
    assert job(client, stays["id"])["state"] == "running"


def test_the_age_of_a_job_that_was_answered_at_once_is_its_own(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    post(client)
    finish(attempts, database)
    age(database, 5, Job, Solve)
    hit = post(client)
    assert hit["cache"] == "hit"
    assert expire(database, settings, keep_jobs_days=1) == {"jobs": 1}
    assert job(client, hit["id"])["state"] == "succeeded"


def test_of_each_tenant_the_newest_jobs_are_kept(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    ids = []
    for number in range(5):
        age(database, 1, Job)
        ids.append(post(client, f"solve {number}")["id"])
        if number != 1:
            finish(attempts, database)
    with database.writing() as session:
        session.execute(update(Job).where(Job.id == ids[0]).values(tenant="another"))
    assert expire(database, settings, keep_jobs=2) == {"jobs": 1}
    kept = {entry["id"] for entry in client.get("/v1/jobs").json()["jobs"]}
    # The second one waits still.
    assert kept == {ids[1], ids[3], ids[4]}
    assert count(database, Job) == [4]


def test_log_and_events_go_before_the_answer(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    job_id = everything_of_a_job(client, attempts, database)
    post(client, "runs")
    attempts.renew(claim(attempts, database).fence, Progress(log_lines=["still running"]))
    age(database, 2, Job, Solve)
    assert expire(database, settings, keep_logs_days=3) == {}
    lines, events = count(database, SolveLogLine, SolveEvent)
    removed = expire(database, settings, keep_logs_days=1)
    left = count(database, SolveLogLine, SolveEvent)
    assert removed == {"log_rows": lines + events - sum(left)}
    assert left[0] == 1
    assert client.get(f"/v1/jobs/{job_id}/result").status_code == 200
    assert client.get(f"/v1/jobs/{job_id}/log").json()["lines"] == []


def test_an_answer_stays_while_it_is_asked_for_or_a_job_has_it(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    post(client)
    finish(attempts, database)
    age(database, 2, Job, Solve)
    assert expire(database, settings, keep_answers_days=1) == {}
    post(client)
    keep = {"keep_jobs_days": 1, "keep_answers_days": 1}
    assert expire(database, settings, **keep) == {"jobs": 1}
    age(database, 0.7, Job, Solve)
    post(client)
    age(database, 0.7, Job, Solve)
    assert expire(database, settings, **keep) == {"jobs": 1}
    assert count(database, Job, Solve) == [1, 1]
    age(database, 0.7, Job, Solve)
    assert expire(database, settings, **keep) == {"jobs": 1, "answers": 1}
    assert set(count(database, *OF_A_SOLVE)) == {0}
    assert post(client)["cache"] == "miss"


def test_an_answer_that_is_being_given_is_left(
    client: TestClient,
    database: Database,
    attempts: Attempts,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the look and the removal a request comes and is answered by it."""
    post(client)
    finish(attempts, database)
    age(database, 2, Job, Solve)
    expire(database, settings, keep_jobs_days=1)
    look = retention.ExpiryRepository.unasked_solves

    def look_then_post(self: Any, age_ms: int, limit: int) -> Any:
        found = look(self, age_ms, limit)
        if found:
            self._session.rollback()
            assert post(client)["cache"] == "hit"
        return found

    monkeypatch.setattr(retention.ExpiryRepository, "unasked_solves", look_then_post)
    assert expire(database, settings, keep_answers_days=1) == {}
    assert count(database, Job, Solve) == [1, 1]


def test_entries_of_the_audit_log_and_idempotency_keys_expire(
    client: TestClient, database: Database, settings: Settings
) -> None:
    with database.writing() as session:
        for number in range(3):
            entry = AuditEntry(tenant="t", actor="a", action=str(number))
            session.add(entry)
            key = IdempotencyKey(tenant="t", key=str(number), request_hash="", made_id="j")
            session.add(key)
    with database.writing() as session:
        old_entry, old_key = AuditEntry.action != "2", IdempotencyKey.key != "2"
        session.execute(update(AuditEntry).where(old_entry).values(at=text(f"at - {10 * DAY_MS}")))
        created = text(f"created_at - {10 * DAY_MS}")
        session.execute(update(IdempotencyKey).where(old_key).values(created_at=created))
    assert expire(database, settings, keep_audit_days=11) == {}
    assert count(database, AuditEntry, IdempotencyKey) == [3, 1]
    assert expire(database, settings, keep_audit_days=9) == {"audit_entries": 2}
    assert count(database, AuditEntry) == [1]


def test_the_sweep_removes_a_little_at_a_time_and_once_a_minute(
    client: TestClient,
    database: Database,
    attempts: Attempts,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "JOBS_PER_STEP", 2)
    monkeypatch.setattr(retention, "AT_ONCE_S", 0.0)
    for number in range(5):
        post(client, f"solve {number}")
        finish(attempts, database)
    age(database, 2, Job, Solve)
    chosen = settings.model_copy(update={**NOTHING, "keep_jobs_days": 1})
    sweeping = Retention(database, chosen)
    left = []
    for _ in range(4):
        sweeping.sweep()
        left += count(database, Job)
    assert left == [3, 1, 0, 0]
    post(client, "solve 0")
    age(database, 2, Job)
    sweeping.sweep()
    assert count(database, Job) == [1]
    monkeypatch.setattr(retention, "EVERY_S", 0.0)
    Retention(database, chosen).sweep()
    assert count(database, Job) == [0]


def test_what_would_go_is_counted_without_touching_it(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    everything_of_a_job(client, attempts, database)
    age(database, 2, Job, Solve)
    keep = {"keep_jobs_days": 1, "keep_logs_days": 1, "keep_answers_days": 1}
    chosen = settings.model_copy(update={**NOTHING, **keep})
    before = count(database, *OF_A_JOB, *OF_A_SOLVE)
    rows = sum(count(database, SolveLogLine, SolveEvent))
    assert Retention(database, chosen).expired() == {"jobs": 1, "log_rows": rows}
    assert count(database, *OF_A_JOB, *OF_A_SOLVE) == before
    assert expire(database, settings, **keep) == {"jobs": 1, "log_rows": rows, "answers": 1}
    assert Retention(database, chosen).expired() == {}


def test_the_settings_of_a_service_that_says_nothing_remove_nothing_new(
    client: TestClient, database: Database, attempts: Attempts, settings: Settings
) -> None:
    everything_of_a_job(client, attempts, database)
    set_columns(database, spent_ms=1)
    assert Retention(database, settings).remove_all() == {}


OF_A_RUN = (Run, RunDocument, RunVersion, RunAck, RunTelemetry, RunEvent)


def test_a_run_that_is_over_or_silent_goes_with_everything_that_is_its(
    run_client: TestClient, database: Database, settings: Settings
) -> None:
    stopped, silent = start_run(run_client), start_run(run_client)
    for run_id in (stopped, silent):
        report(run_client, run_id, range(3))
        acknowledge(run_client, run_id, 1)
    run_client.delete(f"{RUNS}/{stopped}")
    assert 0 not in count(database, *OF_A_RUN)
    age(database, 5, Run)
    assert expire(database, settings, keep_runs_days=6) == {}
    # Whoever reports again is not silent.
    report(run_client, silent, range(3, 4))
    assert expire(database, settings, keep_runs_days=4) == {"runs": 1}
    assert [run["id"] for run in run_client.get(RUNS).json()["runs"]] == [silent]
    age(database, 5, Run)
    chosen = settings.model_copy(update={**NOTHING, "keep_runs_days": 4})
    assert Retention(database, chosen).expired() == {"runs": 1}
    assert expire(database, settings, keep_runs_days=4) == {"runs": 1}
    assert set(count(database, *OF_A_RUN)) == {0}
