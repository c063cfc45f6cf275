"""A database that hangs, or that everybody wants at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from app.database import HANGS_AFTER_S, Database
from app.settings import Settings

TIMEOUT_S = 0.2


@pytest.fixture
def impatient(database_url: str) -> Iterator[Database]:
    database = Database(
        Settings(database_url=database_url, database_pool_size=1, database_timeout_s=TIMEOUT_S)
    )
    yield database
    database.dispose()


@pytest.fixture
def impatient_on_postgres(postgres_tables_url: str) -> Iterator[Database]:
    settings = Settings(database_url=postgres_tables_url, database_timeout_s=TIMEOUT_S)
    database = Database(settings)
    yield database
    database.dispose()


def test_a_statement_without_an_answer_is_given_up(impatient_on_postgres: Database) -> None:
    began = time.monotonic()
    with impatient_on_postgres.reading() as session:
        session.execute(text("SET statement_timeout = 0"))
        with pytest.raises(OperationalError) as raised:
            session.execute(text("SELECT pg_sleep(30)"))
    assert TIMEOUT_S + HANGS_AFTER_S <= time.monotonic() - began < 20
    assert raised.value.connection_invalidated
    with impatient_on_postgres.reading() as session:
        assert session.scalar(text("SELECT 7")) == 7


def test_a_server_that_is_well_gives_a_statement_up_by_itself(
    impatient_on_postgres: Database,
) -> None:
    with impatient_on_postgres.looking() as connection:
        with pytest.raises(OperationalError) as raised:
            connection.execute(text("SELECT pg_sleep(30)"))
        assert not raised.value.connection_invalidated
        assert connection.scalar(text("SELECT 7")) == 7


def test_people_may_wait_for_a_statement(postgres_tables_url: str) -> None:
    settings = Settings(database_url=postgres_tables_url, database_timeout_s=TIMEOUT_S)
    database = Database(settings, is_bounded=False)
    with database.reading() as session:
        session.execute(text("SELECT pg_sleep(:seconds)"), {"seconds": TIMEOUT_S + 1.5})
    database.dispose()


def test_an_error_of_a_statement_costs_no_connection(impatient_on_postgres: Database) -> None:
    with impatient_on_postgres.looking() as connection:
        process = connection.scalar(text("SELECT pg_backend_pid()"))
        statement = text("SELECT pg_advisory_lock(1)")
        with impatient_on_postgres.looking() as other:
            other.execute(statement)
            with pytest.raises(OperationalError) as raised:
                connection.execute(statement)
    assert not raised.value.connection_invalidated
    with impatient_on_postgres.looking() as connection:
        known = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :process")
        assert connection.scalar(known, {"process": process}) == 1


def test_a_process_has_no_more_connections_than_it_says(impatient: Database) -> None:
    with (
        impatient.looking() as connection,
        pytest.raises(PoolTimeout),
        impatient.looking(),
    ):
        connection.execute(text("SELECT 1"))


def backend_of(database: Database) -> int:
    """The server's process at the other end of the connection that is used next."""
    with database.looking() as connection:
        return int(connection.scalars(text("SELECT pg_backend_pid()")).one())


def test_nobody_notices_connections_that_a_server_has_closed(
    impatient_on_postgres: Database, postgres_tables_url: str
) -> None:
    lost = backend_of(impatient_on_postgres)
    other = Database(Settings(database_url=postgres_tables_url))
    with other.looking() as connection:
        # Waits until it is gone.
        ended = text("SELECT pg_terminate_backend(:process, 10000)")
        assert connection.scalar(ended, {"process": lost})
    other.dispose()
    with impatient_on_postgres.writing() as session:
        assert session.scalars(text("SELECT pg_backend_pid()")).one() != lost


def test_a_connection_is_asked_whether_it_leads_anywhere_only_after_it_lay_idle(
    impatient_on_postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialect, asked = impatient_on_postgres.engine.dialect, []
    ask = dialect.do_ping

    def note(connection: Any) -> bool:
        asked.append(connection)
        return ask(connection)

    monkeypatch.setattr(dialect, "do_ping", note)
    first = backend_of(impatient_on_postgres)
    assert backend_of(impatient_on_postgres) == first
    assert not asked
    monkeypatch.setattr("app.database.ASKED_AFTER_S", 0.0)
    assert backend_of(impatient_on_postgres) == first
    assert len(asked) == 1
