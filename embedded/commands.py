"""The command lines of the embedded service's own Python children."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

from app.observability.process_files import FOLDER_VARIABLE

METRICS = "metrics"
"""Where API and worker add up what they count, below the data directory."""


def migrate_command() -> list[str]:
    """Brings the database's schema up to date and ends."""
    return [sys.executable, "-m", "migrations"]


def token_command(path: Path) -> list[str]:
    """Puts a key into this file, unless it holds a valid one, and ends."""
    return [sys.executable, "-m", "app.token_file", os.fspath(path)]


def worker_command() -> list[str]:
    """A Celery worker for both queues, with a name nobody had before."""
    return [
        *(sys.executable, "-m", "celery", "-A", "workers.celery_app", "worker"),
        *("--pool", "prefork"),
        *("--hostname", f"embedded-{uuid.uuid4().hex[:12]}@%h"),
        *("--loglevel", "INFO", "--without-gossip", "--without-mingle"),
    ]


def api_command(listening_fd: int) -> list[str]:
    """The API on a socket that the supervisor holds, so that a restart refuses no connection."""
    return [
        *(sys.executable, "-m", "uvicorn", "app.main:create_app", "--factory"),
        *(
            "--fd",
            str(listening_fd),
            "--no-access-log",
            "--timeout-graceful-shutdown",
            "1",
        ),
    ]


def child_environment(
    own: Mapping[str, str], *, slots: int, database_url: str, broker_url: str, data_dir: Path
) -> dict[str, str]:
    """What the children see: the service's addresses, and temporary files below `data_dir`.

    `slots` is how many solves the worker runs at once, unless `own` says otherwise.
    The children's working directory is `data_dir` too, so a package of the same name in the
    directory where the service was started cannot stand in for one of the service's own.
    """
    # Only the service needs the library of databases, not every command of the client.
    from app.models import LONG, SHORT

    temporary = data_dir / "tmp"
    return {
        "LOADMASTER_WORKER_QUEUES": json.dumps([SHORT, LONG]),
        # Long solves leave a slot to short ones, where there is more than one.
        "LOADMASTER_MAX_RUNNING_LONG": str(max(1, slots - 1)),
        # Its log files are read by people.
        "LOADMASTER_LOG_FORMAT": "text",
        **own,
        "LOADMASTER_DATABASE_URL": database_url,
        "LOADMASTER_BROKER_URL": broker_url,
        "LOADMASTER_DATA_DIR": os.fspath(data_dir),
        "TMPDIR": os.fspath(temporary),
        FOLDER_VARIABLE: os.fspath(data_dir / METRICS),
        "PYTHONUNBUFFERED": "1",
    }
