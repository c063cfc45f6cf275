"""Every migration, up and down, with rows in it: nothing that was stored is lost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, MetaData, func, inspect, select, text
from starlette.testclient import TestClient

from app.database import Database, make_engine, upgrade_schema
from app.main import create_app
from app.models import SCHEMA_REVISION, Base, Solve
from app.services.attempts import Attempts
from app.services.schema_state import schema_state
from app.settings import Settings
from migrations.run import SCRIPTS, downgrade
from planner.version import __version__
from tests.integration.conftest import DATABASES, WITHOUT_KEYS, new_postgres_database
from tests.integration.fakes import resolve_fake
from tests.integration.helpers import job, post
from tests.integration.old_rows import SOLVES, insert_first_release

REVISIONS = [
    script.revision for script in reversed(list(ScriptDirectory(str(SCRIPTS)).walk_revisions()))
]
FIRST, HEAD = REVISIONS[0], REVISIONS[-1]
JOBS_AS_TODAY = "0006"
"""The first revision whose jobs this version can read."""
Content = dict[str, list[dict[str, Any]]]


@pytest.fixture(params=DATABASES)
def settings(request: pytest.FixtureRequest, tmp_path: Any) -> Settings:
    """A database with the first release's schema and rows in every state."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'first.db'}"
    else:
        url = new_postgres_database(request.getfixturevalue("postgres_url"))
    settings = Settings(database_url=url, **WITHOUT_KEYS)
    upgrade_schema(settings, FIRST)
    engine = make_engine(settings)
    with engine.begin() as connection:
        insert_first_release(connection)
    engine.dispose()
    return settings


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    engine = make_engine(settings)
    yield engine
    engine.dispose()


def content(engine: Engine) -> Content:
    """Every row of every table, as whatever schema there is says."""
    tables = MetaData()
    with engine.connect() as connection:
        tables.reflect(connection)
        return {
            name: sorted(
                (dict(row) for row in connection.execute(select(table)).mappings()), key=str
            )
            for name, table in tables.tables.items()
            if name != "alembic_version"
        }


def structure(engine: Engine) -> Any:
    """Columns, indexes, checks and foreign keys of every table."""
    with engine.connect() as connection:
        found = inspect(connection)
        return {
            name: (
                sorted(
                    (column["name"], str(column["type"]), column["nullable"])
                    for column in found.get_columns(name)
                ),
                sorted(
                    (str(index["name"]), index["column_names"], bool(index["unique"]))
                    for index in found.get_indexes(name)
                ),
                sorted(str(check["name"]) for check in found.get_check_constraints(name)),
                sorted(str(key["constrained_columns"]) for key in found.get_foreign_keys(name)),
            )
            for name in sorted(found.get_table_names())
        }


def test_the_code_names_the_last_revision_and_numbers_grow() -> None:
    assert HEAD == SCHEMA_REVISION
    assert sorted(REVISIONS) == REVISIONS
    assert len({len(revision) for revision in REVISIONS}) == 1


def test_each_step_up_and_down_again_loses_nothing(settings: Settings, engine: Engine) -> None:
    for below, revision in pairwise(REVISIONS):
        before, shape = content(engine), structure(engine)
        for _ in range(2):
            upgrade_schema(settings, revision)
            engine.dispose()
            changed = content(engine)
            assert {name: len(rows) for name, rows in before.items()} == {
                name: len(changed[name]) for name in before
            }
            downgrade(settings, below)
            engine.dispose()
            assert content(engine) == before
            assert structure(engine) == shape
        upgrade_schema(settings, revision)
        engine.dispose()


def test_all_the_way_up_and_back_to_the_first_release(settings: Settings, engine: Engine) -> None:
    before, shape = content(engine), structure(engine)
    upgrade_schema(settings)
    engine.dispose()
    after = content(engine)
    assert set(after) == set(Base.metadata.tables)
    by_id = {row["id"]: row for row in after["solves"]}
    for old in before["solves"]:
        new = by_id[old["id"]]
        renamed = {"best_objective_ns": "best_objective", "lower_bound_ns": "lower_bound"}
        assert {name: new[renamed.get(name, name)] for name in old} == old
        assert (new["tenant"], new["scope"], new["queue"]) == ("default", "", "short")
        assert new["asked_at"] == (old["finished_at"] or old["created_at"])
    assert {row["tenant"] for row in after["jobs"]} == {"default"}
    downgrade(settings, FIRST)
    engine.dispose()
    assert content(engine) == before
    assert structure(engine) == shape


def test_the_service_goes_on_where_the_first_release_stopped(settings: Settings) -> None:
    upgrade_schema(settings)
    database = Database(settings)
    with TestClient(create_app(settings, resolve_fake), raise_server_exceptions=False) as client:
        listed = client.get("/v1/jobs?limit=200").json()["jobs"]
        assert len(listed) == 2 * len(SOLVES)
        states = {entry["id"]: entry["state"] for entry in listed}
        assert states["queued-0"] == "queued"
        assert states["succeeded-1"] == "succeeded"
        assert states["failed-0"] == "failed"
        assert client.get("/readyz").json()["schema"] == "ok"
        for table in Base.metadata.sorted_tables:
            with database.reading() as session:
                session.execute(select(func.count()).select_from(table))
        attempts = Attempts(database, settings, "test-worker", __version__)
        order = attempts.claim("queued")
        assert order is not None
        assert order.spec["options"]["engine"] == "cbc"
        with database.reading() as session:
            states_now = dict(session.execute(select(Solve.id, Solve.state)).all())
        # The sweep of the new version has taken back what the old one's workers had.
        assert states_now["running"] in ("queued", "running")
        fresh = post(client, "new")
        assert job(client, fresh["id"])["state"] == "queued"
    database.dispose()


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_an_older_schema_is_not_ready_and_says_so_without_a_traceback(
    settings: Settings, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    upgrade_schema(settings, revision)
    with TestClient(create_app(settings, resolve_fake), raise_server_exceptions=False) as client:
        answer = client.get("/readyz")
        # Runs have tables of their own; where jobs cannot be read, a stream would tell nothing.
        refused = "/v1/events" if revision < JOBS_AS_TODAY else "/v1/runs"
        assert client.get(refused).status_code == 503
    assert answer.status_code == 503
    assert answer.json()["status"] == "down"
    assert (answer.json()["database"], answer.json()["schema"]) == ("ok", "outdated")
    wanted = f"schema is {revision} and has to be {HEAD}: run `loadmaster db migrate`"
    said = [entry for entry in caplog.records if wanted in entry.getMessage()]
    assert said
    assert all(entry.exc_info is None for entry in said)


def test_a_newer_schema_is_ready_while_versions_are_exchanged(settings: Settings) -> None:
    upgrade_schema(settings)
    database = Database(settings)
    assert schema_state(database) == "ok"
    with database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with TestClient(create_app(settings, resolve_fake)) as client:
        answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["schema"]) == (200, "newer")
    database.dispose()
