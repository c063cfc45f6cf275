"""The database that these commands work on."""

from __future__ import annotations

import getpass
import shlex
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from app.settings import DEFAULT_DATA_DIR
from client.database import reported, with_database
from client.errors import ClientError

if TYPE_CHECKING:
    from app.database import Database

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory of `loadmaster serve`; without it the database is the one that "
    f"LOADMASTER_DATABASE_URL or LOADMASTER_DATA_DIR names, or ./{DEFAULT_DATA_DIR}.",
)


@contextmanager
def open_database(data_dir: Path | None) -> Iterator[Database]:
    """The service's database, which has to be there and have its tables."""
    # Only here: the other commands need neither SQLAlchemy nor the time to import it.
    from sqlalchemy import inspect

    from app.database import Database
    from app.models import ApiKey
    from app.settings import Settings

    settings = Settings() if data_dir is None else Settings(data_dir=data_dir, database_url="")
    # People wait for what a command does, and can stop it.
    database = Database(with_database(settings), is_bounded=False)
    try:
        with reported():
            if not inspect(database.engine).has_table(ApiKey.__tablename__):
                where = "" if data_dir is None else f" --data-dir {shlex.quote(str(data_dir))}"
                raise ClientError(
                    "the database is of an older version; start the service once, or run "
                    f"`loadmaster db migrate{where}`"
                )
            yield database
    finally:
        database.dispose()


def person() -> str:
    """Who runs the command, for the audit log."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "somebody"
    return f"{name}@{socket.gethostname()}"


def instant(milliseconds: int | None) -> str:
    """An instant of the database for people, in UTC."""
    from app.schemas.times import instant

    at = instant(milliseconds)
    return "–" if at is None else f"{at:%Y-%m-%d %H:%M}"


def print_columns(heading: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Rows of cells below each other, for eyes and for `awk`."""
    widths = [max(map(len, cells)) for cells in zip(heading, *rows, strict=True)]
    for row in (heading, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
