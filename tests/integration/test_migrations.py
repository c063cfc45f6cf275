"""The migrations give the schema that the models describe, and can be taken back."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from app.database import Database, make_engine, upgrade_schema
from app.models import DEFAULT_TENANT, JOB_CHECKS, REUSABLE_CONDITION, SOLVE_CHECKS, Base
from app.services.resolutions import Resolution
from app.services.submission import JobOptions, Submission, Wanted
from app.settings import Settings
from migrations.run import downgrade
from planner.pipeline.request import resolve_request
from planner.version import __version__
from tests.integration.conftest import DATABASES, new_postgres_database

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=DATABASES)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Settings of a database without tables."""
    if request.param == "sqlite":
        return Settings(database_url=f"sqlite:///{tmp_path / 'new' / 'empty.db'}")
    return Settings(database_url=new_postgres_database(request.getfixturevalue("postgres_url")))


def test_up_and_down_and_up_again(empty: Settings) -> None:
    upgrade_schema(empty)
    engine = make_engine(empty)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, Base.metadata) == []
        found = {check["name"] for check in inspect(connection).get_check_constraints("solves")}
        assert found == {f"ck_solves_{name}" for name in SOLVE_CHECKS}
        found = {check["name"] for check in inspect(connection).get_check_constraints("jobs")}
        assert found == {f"ck_jobs_{name}" for name in JOB_CHECKS}
    downgrade(empty, "base")
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == ["alembic_version"]
    engine.dispose()
    upgrade_schema(empty)


def test_several_processes_may_migrate_at_once(empty: Settings) -> None:
    environment = {**os.environ, "LOADMASTER_DATABASE_URL": empty.database_url}
    command = [sys.executable, "-m", "migrations"]
    running = [subprocess.Popen(command, env=environment, cwd=ROOT) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]


def test_the_migration_and_the_models_agree_on_what_is_reused() -> None:
    script = ROOT / "migrations" / "versions" / "0001_solves_and_jobs.py"
    assert REUSABLE_CONDITION in script.read_text()


STAGE = {"forward_ns": 10, "backward_input_ns": 10, "activation_bytes": 4}
POSTED: dict[str, Any] = {
    "problem": {
        "micro_batches": 3,
        "devices": [{"activation_memory_bytes": 8, "host_link": "name", "host": 0}],
        "stages": [{"device": 0, **STAGE, "offload_bytes": 4}],
        "hosts": [{"memory_bytes": 9}],
        "host_links": {"name": {"duplex": "half"}},
    }
}
FROM_MODEL = {
    "model": "GPT-1.5B",
    "cluster": "4xA100-40GB",
    "training": {"micro_batch_size": 1, "micro_batches": 4},
}
TOO_LARGE = {**FROM_MODEL, "model": "Llama-3-70B"}


@pytest.mark.parametrize("body", [POSTED, FROM_MODEL, TOO_LARGE])
def test_the_migration_identifies_problems_as_the_planner_does(body: dict[str, Any]) -> None:
    migration = importlib.import_module("migrations.versions.0002_problems_and_shapes")
    resolved = resolve_request(body)
    stored = json.loads(json.dumps(resolved.spec))
    assert migration.problem_hash(stored) == resolved.problem_hash


def insert_old_solve(
    connection: Connection, solve_id: str, body: dict[str, Any], **columns: Any
) -> None:
    """A solve as the first revision of the schema stored it."""
    values = {
        "id": solve_id,
        "kind": "pipeline",
        "spec_hash": solve_id,
        "engine": "cbc",
        "solver_version": "0.0.1",
        "spec": json.dumps(resolve_request(body).spec),
        "operations": 3,
        "time_limit_ms": 5000,
        "state": "queued",
        "priority": 5,
        "reusable": True,
        "stop_requested": False,
        "attempt": 0,
        "crashes": 0,
        "losses": 0,
        "not_before": 0,
        "created_at": 1,
        "spent_ms": 0,
        "proven_optimal": False,
        **columns,
    }
    names = ", ".join(values)
    places = ", ".join(f":{name}" for name in values)
    connection.execute(text(f"INSERT INTO solves ({names}) VALUES ({places})"), values)


def over(**certificate: Any) -> dict[str, Any]:
    """The columns of a solve that has succeeded."""
    result = json.dumps({"certificate": certificate})
    return {"state": "succeeded", "finished_at": 2, "best_objective_ns": 60, "result": result}


def test_stored_solves_are_identified_on_the_way_up_and_survive_the_way_down(
    empty: Settings,
) -> None:
    upgrade_schema(empty, "0001")
    engine = make_engine(empty)
    placements = [{"lower_bound_ns": 60}, {"lower_bound_ns": 50}]
    with engine.begin() as connection:
        insert_old_solve(connection, "queued", FROM_MODEL)
        insert_old_solve(connection, "proven", POSTED, **over(), proven_optimal=True)
        bounded = {**over(placements=placements), "lower_bound_ns": 60}
        insert_old_solve(connection, "bounded", FROM_MODEL, **bounded)
        before = connection.execute(text("SELECT * FROM solves ORDER BY id")).mappings().all()
    upgrade_schema(empty, "0002")
    query = text("SELECT id, problem_hash, lower_bound_ns, shape_hash FROM solves ORDER BY id")
    posted, from_model = (resolve_request(body).problem_hash for body in (POSTED, FROM_MODEL))
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(query)]
    assert rows == [
        ("bounded", from_model, 50, None),
        ("proven", posted, None, None),
        ("queued", from_model, None, None),
    ]
    upgrade_schema(empty)
    database = Database(empty)
    submission = Submission(database, empty, __version__, lambda: None)
    wanted = Wanted(Resolution.of(resolve_request(POSTED)), JobOptions())
    submission.submit(DEFAULT_TENANT, wanted, fresh=False)
    with database.reading() as session:
        assert session.execute(text("SELECT solve_id, cache FROM jobs")).all() == [
            ("proven", "hit")
        ]
    database.dispose()
    downgrade(empty, "0001")
    with engine.connect() as connection:
        after = connection.execute(text("SELECT * FROM solves ORDER BY id")).mappings().all()
    assert [{**row, "lower_bound_ns": None} for row in after] == [
        {**row, "lower_bound_ns": None} for row in before
    ]
    engine.dispose()
    upgrade_schema(empty)


def test_objectives_and_bounds_keep_their_values_under_their_new_names(empty: Settings) -> None:
    upgrade_schema(empty, "0002")
    engine = make_engine(empty)
    with engine.begin() as connection:
        insert_old_solve(connection, "bounded", POSTED, **over(), lower_bound_ns=50)
        insert_old_solve(connection, "queued", FROM_MODEL)
        before = connection.execute(text("SELECT * FROM solves ORDER BY id")).mappings().all()
    upgrade_schema(empty)
    query = text("SELECT id, best_objective, lower_bound FROM solves ORDER BY id")
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(query)]
    assert rows == [("bounded", 60, 50), ("queued", None, None)]
    downgrade(empty, "0002")
    with engine.connect() as connection:
        after = connection.execute(text("SELECT * FROM solves ORDER BY id")).mappings().all()
    assert after == before
    engine.dispose()
