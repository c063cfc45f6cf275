"""Looking after the database by hand: is it whole, is its schema the right one, a copy of it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.engine import URL

from app.database import Database, milliseconds
from app.models import SCHEMA_REVISION, SolveState
from app.repositories.upkeep import StoredAnswer, UpkeepRepository
from app.settings import Settings

LAPSED_FOR_S = 600.0
PG_DUMP = "pg_dump"


class UpkeepError(Exception):
    """Something that cannot be done; its text names the remedy."""


def check(database: Database) -> list[str]:
    """What is wrong with the database; an empty list where nothing is."""
    with database.reading() as session:
        upkeep = UpkeepRepository(session)
        revision = upkeep.revision()
        if revision != SCHEMA_REVISION:
            return [
                f"the schema is {revision or 'missing'}, and this version has {SCHEMA_REVISION}"
            ]
        found = [*upkeep.faults(), *upkeep.orphans()]
        found += [
            f"solve {solve_id} runs, but its lease lapsed more than {LAPSED_FOR_S / 60:g} min ago; "
            "does an API or a worker run?"
            for solve_id in upkeep.abandoned(milliseconds(LAPSED_FOR_S))
        ]
        for answer in upkeep.answers():
            fault = _fault(answer)
            if fault is not None:
                found.append(f"solve {answer.solve_id}: {fault}")
        return found


def _fault(answer: StoredAnswer) -> str | None:
    try:
        document = json.loads(answer.result or "")
    except ValueError:
        return "its result is not JSON"
    if answer.state == SolveState.INFEASIBLE:
        return None if "infeasibility" in document else "its result does not say why nothing fits"
    verified = document.get("certificate", {}).get("verified")
    return None if verified else "its result was not verified"


def back_up(settings: Settings, target: Path) -> None:
    """A consistent copy of the database; the service may go on meanwhile.

    Of SQLite it is a database file, of PostgreSQL what `pg_restore` reads.
    """
    if target.exists():
        raise UpkeepError(f"{target} exists; name a file that does not")
    url = make_url(settings.resolved_database_url)
    # Nobody else may read it, and what is not complete does not have its name.
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        if url.get_backend_name() == "sqlite":
            _copy_sqlite(str(url.database), partial)
        else:
            _dump_postgres(url, partial, target)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _copy_sqlite(source: str, target: Path) -> None:
    with closing(sqlite3.connect(source)) as from_, closing(sqlite3.connect(target)) as to:
        # In one step: it then reads one state, and in WAL mode holds up nobody who writes.
        from_.backup(to)
        to.execute("PRAGMA journal_mode = DELETE")


def _dump_postgres(url: URL, partial: Path, target: Path) -> None:
    program = shutil.which(PG_DUMP)
    address = url._replace(drivername="postgresql", password=None).render_as_string()
    command = ["--format=custom", f"--dbname={address}"]
    if program is None:
        by_hand = shlex.join([PG_DUMP, *command, f"--file={target}"])
        raise UpkeepError(f"{PG_DUMP} is not on PATH; where it is, run: {by_hand}")
    environment = dict(os.environ)
    if url.password is not None:
        # Command lines are seen by everyone on the machine.
        environment["PGPASSWORD"] = str(url.password)
    done = subprocess.run(
        [program, *command, f"--file={partial}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UpkeepError(f"{PG_DUMP} failed: {done.stderr.strip()}")
