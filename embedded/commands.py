"""The command lines of the embedded service's own Python children."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

from embedded.cores import usable_cores


def migrate_command() -> list[str]:
    """Brings the database's schema up to date and ends."""
    return [sys.executable, "-m", "migrations"]


def worker_command() -> list[str]:
    """A Celery worker with one solver slot per usable core and a name nobody had before."""
    return [
        *(sys.executable, "-m", "celery", "-A", "workers.celery_app", "worker"),
        *("--pool", "prefork", "--concurrency", str(usable_cores())),
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
    own: Mapping[str, str], *, database_url: str, broker_url: str, data_dir: Path
) -> dict[str, str]:
    """What the children see: the service's addresses, and temporary files below `data_dir`.

    The children's working directory is `data_dir` too, so a package of the same name in the
    directory where the service was started cannot stand in for one of the service's own.
    """
    temporary = data_dir / "tmp"
    return {
        **own,
        "LOADMASTER_DATABASE_URL": database_url,
        "LOADMASTER_BROKER_URL": broker_url,
        "LOADMASTER_DATA_DIR": os.fspath(data_dir),
        "TMPDIR": os.fspath(temporary),
        "PYTHONUNBUFFERED": "1",
    }
