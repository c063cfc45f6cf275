"""The migrations give the schema that the models describe, and can be taken back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

from app.database import make_engine, upgrade_schema
from app.models import JOB_CHECKS, REUSABLE_CONDITION, SOLVE_CHECKS, Base
from app.settings import Settings
from migrations.run import downgrade
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
