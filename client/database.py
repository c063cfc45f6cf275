"""`loadmaster db`: looking after the database where the service runs.

What it needs of the service is imported by the command that runs: a client that talks to a service
elsewhere loads no database library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from app.settings import DEFAULT_DATA_DIR
from client.errors import ClientError, InputError

if TYPE_CHECKING:
    from app.settings import Settings


def database_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which database: that of a data directory, or the one at an address."""
    folder = click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=DEFAULT_DATA_DIR,
        show_default=True,
        envvar="LOADMASTER_DATA_DIR",
        show_envvar=True,
        help="The service's data directory, if its database is the file in there; given here, it "
        "comes before LOADMASTER_DATABASE_URL.",
    )
    url = click.option(
        "--database-url",
        default="",
        envvar="LOADMASTER_DATABASE_URL",
        show_envvar=True,
        help="Address of another database.",
    )
    return folder(url(command))


@contextmanager
def reported() -> Iterator[None]:
    """What the database says, as one line at the terminal."""
    from sqlalchemy.exc import SQLAlchemyError

    from app.services.upkeep import UpkeepError

    try:
        yield
    except UpkeepError as error:
        raise ClientError(str(error)) from error
    except (SQLAlchemyError, OSError) as error:
        raise ClientError(f"the database cannot be used: {_first_line(error)}") from error


def settings_of(data_dir: Path, database_url: str, *, must_exist: bool = True) -> Settings:
    """The service's settings for this database."""
    from app.settings import Settings

    if _is_on_command_line("data_dir") and not _is_on_command_line("database_url"):
        # What the command names comes before what the environment does.
        database_url = ""
    settings = Settings(data_dir=data_dir, database_url=database_url)
    return with_database(settings) if must_exist else settings


def with_database(settings: Settings) -> Settings:
    """These settings, whose database has to be there if it is a file."""
    from sqlalchemy import make_url

    url = make_url(settings.resolved_database_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        wrong = f"there is no database {url.database}."
        raise InputError("--data-dir", wrong, "Start the service once, or name another one.")
    return settings


def _is_on_command_line(parameter: str) -> bool:
    source = click.get_current_context().get_parameter_source(parameter)
    return source is ParameterSource.COMMANDLINE


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


@click.group("db")
def database_commands() -> None:
    """Look after the database: schema, expired rows, copies, checks."""


@database_commands.command("migrate")
@click.option("--revision", default="head", show_default=True, help="Which schema.")
@click.option(
    "--down",
    is_flag=True,
    help="Go back to an older schema, which drops what it lacks: below 0007 runs, below 0006 "
    "requests of jobs, below 0005 keys, limits of tenants, the audit log, webhooks and batches.",
)
@database_options
def migrate_command(revision: str, down: bool, data_dir: Path, database_url: str) -> None:
    """Bring the schema up to date. Several may do it at once."""
    from migrations.run import UnknownRevision, downgrade, upgrade

    settings = settings_of(data_dir, database_url, must_exist=False)
    with reported():
        before = _parts(settings)
        try:
            (downgrade if down else upgrade)(settings, revision)
        except UnknownRevision as error:
            raise ClientError(str(error)) from error
        gone = before - _parts(settings)
        # Of a table that went its columns need not be named.
        dropped = sorted(part for part in gone if part.partition(".")[0] not in gone - {part})
    if dropped:
        click.echo(f"warning: dropped with all that was in them: {', '.join(dropped)}", err=True)
    click.echo(f"the schema is at {_revision(settings)}")


@database_commands.command("prune")
@click.option("--dry-run", is_flag=True, help="Only say how much there is to remove.")
@database_options
def prune_command(dry_run: bool, data_dir: Path, database_url: str) -> None:
    """Remove what has expired now; the service does so every minute."""
    from app.database import Database
    from app.services.retention import Retention

    settings = settings_of(data_dir, database_url)
    database = Database(settings, is_bounded=False)
    with reported():
        retention = Retention(database, settings)
        found = retention.expired() if dry_run else retention.remove_all()
    database.dispose()
    verb = "expired" if dry_run else "removed"
    for what, count in found.items():
        click.echo(f"{verb}: {count} {what.replace('_', ' ')}")
    if not found:
        click.echo("nothing has expired")


@database_commands.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@database_options
def backup_command(file: Path, data_dir: Path, database_url: str) -> None:
    """Write a consistent copy to FILE, which must not exist. The service may run meanwhile.

    Of PostgreSQL it is made by pg_dump.
    """
    from app.services.upkeep import back_up

    settings = settings_of(data_dir, database_url)
    with reported():
        back_up(settings, file)
    click.echo(f"{file}: {file.stat().st_size} bytes")


@database_commands.command("check")
@database_options
def check_command(data_dir: Path, database_url: str) -> None:
    """Check the database, its schema, and that every answer is there and was verified."""
    from app.database import Database
    from app.services.upkeep import check

    settings = settings_of(data_dir, database_url)
    database = Database(settings, is_bounded=False)
    with reported():
        faults = check(database)
    database.dispose()
    for fault in faults:
        click.echo(fault)
    if faults:
        sys.exit(ClientError.exit_status)
    click.echo("nothing is wrong")


def _parts(settings: Settings) -> set[str]:
    """The tables, and of each the columns, by name."""
    from sqlalchemy import inspect

    from app.database import Database

    database = Database(settings, is_bounded=False)
    found = inspect(database.engine)
    tables = found.get_table_names()
    columns = [f"{table}.{own['name']}" for table in tables for own in found.get_columns(table)]
    database.dispose()
    return {*tables, *columns}


def _revision(settings: Settings) -> str:
    from app.database import Database
    from app.repositories.upkeep import UpkeepRepository

    database = Database(settings, is_bounded=False)
    with database.reading() as session:
        revision = UpkeepRepository(session).revision()
    database.dispose()
    return revision or "none"
