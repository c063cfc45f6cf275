"""Engine, sessions and the database's clock, alike on SQLite and PostgreSQL.

Every instant in the database is a whole number of milliseconds since 1970 UTC on the clock of the
database itself, so that machines whose clocks differ agree on when a lease has lapsed.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Engine,
    Text,
    create_engine,
    event,
    literal_column,
    make_url,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.exc import DBAPIError, InterfaceError, InvalidatePoolError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.sql.functions import FunctionElement

from app.settings import Settings

BEGIN_OPTION = "sqlite_begin"
POSTGRES_CONNECT_TIMEOUT_S = 5
HANGS_AFTER_S = 1.0
"""How much later than it should a server may answer before it is taken for one that hangs."""
ASKED_AFTER_S = 5.0
"""A connection that lay idle for longer is asked whether there is still somebody at its other end:
what lies between may have dropped it without a word."""
UNREACHABLE = (OperationalError, InterfaceError, PoolTimeout)
"""What is raised while the database is away or too busy."""
UNDEFINED = ("42703", "42P01")
"""What PostgreSQL calls an unknown column and an unknown table (`SQLSTATE`)."""
DEADLOCK = "40P01"
"""What PostgreSQL calls a deadlock (`SQLSTATE`)."""
_LAST_USED = "last used"


class clock_ms(FunctionElement[int]):  # noqa: N801 - used like a SQL function
    """The database's own clock: whole milliseconds since 1970 UTC."""

    type = BigInteger()
    inherit_cache = True


@compiles(clock_ms, "sqlite")
def _clock_on_sqlite(element: Any, compiler: Any, **kwargs: Any) -> str:
    # julianday has a resolution of about 0.04 ms; unixepoch('subsec') needs SQLite 3.42.
    return "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"


@compiles(clock_ms, "postgresql")
def _clock_on_postgres(element: Any, compiler: Any, **kwargs: Any) -> str:
    # now() would stand still during a transaction that waits for a lock.
    return "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"


class json_list(FunctionElement[str]):  # noqa: N801 - used like a SQL function
    """All values of a column as a JSON list (text), in any order; null or `[]` of none."""

    type = Text()
    inherit_cache = True


@compiles(json_list, "sqlite")
def _list_on_sqlite(element: Any, compiler: Any, **kwargs: Any) -> str:
    return f"json_group_array({compiler.process(element.clauses, **kwargs)})"


@compiles(json_list, "postgresql")
def _list_on_postgres(element: Any, compiler: Any, **kwargs: Any) -> str:
    return f"CAST(json_agg({compiler.process(element.clauses, **kwargs)}) AS TEXT)"


class json_part(FunctionElement[Any]):  # noqa: N801 - used like a SQL function
    """A part of a column that holds a JSON document, as text: a column, and the names on the way.

    The database takes the document apart, so that one of megabytes need not be read for a number.
    """

    type = Text()
    inherit_cache = True

    def __init__(self, column: Any, *path: str) -> None:
        super().__init__(column, *(literal_column(f"'{name}'") for name in path))


def _arguments(element: Any, compiler: Any, **kwargs: Any) -> tuple[str, list[str]]:
    column, *path = (compiler.process(own, **kwargs) for own in element.clauses)
    return column, [name.strip("'") for name in path]


@compiles(json_part, "sqlite")
def _part_on_sqlite(element: Any, compiler: Any, **kwargs: Any) -> str:
    column, path = _arguments(element, compiler, **kwargs)
    return f"CAST(json_extract({column}, '$.{'.'.join(path)}') AS TEXT)"


@compiles(json_part, "postgresql")
def _part_on_postgres(element: Any, compiler: Any, **kwargs: Any) -> str:
    column, path = _arguments(element, compiler, **kwargs)
    return f"(CAST({column} AS json) #>> '{{{','.join(path)}}}')"


class json_picked(json_part):  # noqa: N801 - used like a SQL function
    """Some fields of a column that holds a JSON object, as the text of an object with these."""

    inherit_cache = True


@compiles(json_picked, "sqlite")
def _picked_on_sqlite(element: Any, compiler: Any, **kwargs: Any) -> str:
    column, names = _arguments(element, compiler, **kwargs)
    picked = ", ".join(f"'{name}', json_extract({column}, '$.{name}')" for name in names)
    return f"json_object({picked})"


@compiles(json_picked, "postgresql")
def _picked_on_postgres(element: Any, compiler: Any, **kwargs: Any) -> str:
    column, names = _arguments(element, compiler, **kwargs)
    picked = ", ".join(f"'{name}', CAST({column} AS json) -> '{name}'" for name in names)
    return f"CAST(json_build_object({picked}) AS TEXT)"


def insert_or_not(session: Session, table: type[Any]) -> Any:
    """An insert into the table that may say what is to happen `on_conflict`."""
    is_postgresql = session.get_bind().dialect.name == "postgresql"
    return postgresql_insert(table) if is_postgresql else sqlite_insert(table)


def lacks_schema(error: DBAPIError) -> bool:
    """Whether a statement failed for a table or column that the database does not have."""
    state = getattr(error.orig, "sqlstate", None)
    return state in UNDEFINED or str(error.orig).startswith(("no such column", "no such table"))


def milliseconds(seconds: float) -> int:
    """Seconds as whole milliseconds."""
    return round(seconds * 1000)


class Database:
    """One engine and its sessions. Make one per process; never carry one across a fork.

    Without bounds its statements may take any time, for people who wait for them.
    """

    def __init__(self, settings: Settings, *, is_bounded: bool = True) -> None:
        self.engine = make_engine(settings, is_bounded=is_bounded)
        self.timeout_s = settings.database_timeout_s
        # On PostgreSQL a transaction around a query costs two more trips, and gives it nothing.
        alone = {} if self.engine.name == "sqlite" else {"isolation_level": "AUTOCOMMIT"}
        self._looking = self.engine.execution_options(**alone)
        self._reading = sessionmaker(self.engine, expire_on_commit=False)
        self._writing = sessionmaker(
            self.engine.execution_options(**{BEGIN_OPTION: "IMMEDIATE"}), expire_on_commit=False
        )

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that only reads; several run side by side, also on SQLite."""
        with self._reading() as session:
            yield session

    @contextmanager
    def looking(self) -> Iterator[Connection]:
        """A connection that only reads, for the few queries that are asked most: a session costs
        more than such a query. On PostgreSQL each sees what was committed before it."""
        with self._looking.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A session that commits once, at its end, or rolls back if an exception leaves it.

        On SQLite it holds the write lock from its first statement, so that two of them can
        never deadlock by both upgrading a read lock.
        """
        with self._writing.begin() as session:
            yield session

    def dispose(self) -> None:
        """Close the connections."""
        self.engine.dispose()


def make_engine(settings: Settings, *, is_bounded: bool = False) -> Engine:
    """An engine for `settings.resolved_database_url`, with the manners of its database.

    On PostgreSQL a statement waits for a lock for no longer than `database_timeout_s`, and takes no
    longer in all if it `is_bounded`.
    """
    url = make_url(settings.resolved_database_url)
    timeout_s = settings.database_timeout_s
    common: dict[str, Any] = {
        "pool_size": settings.database_pool_size,
        # A server takes so many connections and no more, and every process may need all of its own.
        "max_overflow": 0,
        "pool_timeout": timeout_s,
        # The last one used knows its statements best, and the others are not kept from idling.
        "pool_use_lifo": True,
        # Errors are written to the log, and parameters may be secrets.
        "hide_parameters": True,
    }
    if url.get_backend_name() == "sqlite":
        if url.database:
            Path(url.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(url, connect_args={"timeout": timeout_s}, **common)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_on_sqlite)
        return engine
    engine = create_engine(
        url,
        connect_args={
            "connect_timeout": POSTGRES_CONNECT_TIMEOUT_S,
            "options": _postgres_options(milliseconds(timeout_s), is_bounded=is_bounded),
        },
        **common,
    )
    event.listen(engine, "checkin", _note_when_last_used)
    event.listen(engine, "checkout", partial(_check_alive, engine.dialect))
    if is_bounded:
        # Beyond the time after which the server gives up by itself, if it is well.
        patience_s = timeout_s + HANGS_AFTER_S
        event.listen(engine, "do_connect", partial(_connect_to_postgres, patience_s))
    return engine


def _postgres_options(timeout_ms: int, *, is_bounded: bool) -> str:
    options = f"-c timezone=UTC -c lock_timeout={timeout_ms}"
    return f"{options} -c statement_timeout={timeout_ms}" if is_bounded else options


def _connect_to_postgres(
    patience_s: float, dialect: Any, record: Any, arguments: Any, options: Any
) -> Any:
    # The driver is imported where it is needed: SQLite has its own.
    from app.bounded_connection import connect

    return connect(patience_s, *arguments, **options)


def _note_when_last_used(connection: Any, record: Any) -> None:
    record.info[_LAST_USED] = time.monotonic()


def _check_alive(dialect: Any, connection: Any, record: Any, fairy: Any) -> None:
    """Have a connection that is lost replaced before anybody uses it. To ask the server each time
    would cost as much as a query; one that goes away closes its connections, which can be seen."""
    now = time.monotonic()
    is_recent = now - record.info.get(_LAST_USED, now) <= ASKED_AFTER_S
    try:
        if not is_recent or _has_unread(connection):
            dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise InvalidatePoolError from error


def _has_unread(connection: Any) -> bool:
    """Whether something has come that nobody asked for: mostly the end of the connection."""
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _prepare_sqlite(connection: Any, record: Any) -> None:
    # The driver must not open transactions by itself: _begin_on_sqlite does, with the right lock.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_on_sqlite(connection: Connection) -> None:
    lock = connection.get_execution_options().get(BEGIN_OPTION, "DEFERRED")
    connection.exec_driver_sql(f"BEGIN {lock}")


def is_deadlock(error: DBAPIError) -> bool:
    """Whether the database ended this transaction so that another one could go on."""
    return getattr(error.orig, "sqlstate", None) == DEADLOCK


def upgrade_schema(settings: Settings | None = None, revision: str = "head") -> None:
    """Bring the schema to `revision`; safe when several processes do it at once."""
    from migrations.run import upgrade

    upgrade(settings or Settings(), revision)
