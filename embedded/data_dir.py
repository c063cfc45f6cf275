"""The one directory that holds everything the embedded service writes."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from embedded.errors import StartError
from embedded.filesystems import refuse_network

LOCK_NAME = "supervisor.lock"
LARGEST_LOG_BYTES = 16 * 2**20


class DataDir:
    """A private directory held by one supervisor at a time.

    Use as a context manager: entering creates the directory (0700) and takes its lock, leaving
    gives it back. The lock file says who holds it and at which address the service answers.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        self.logs = self.path / "logs"
        self._lock: int | None = None

    @property
    def database_url(self) -> str:
        return f"sqlite:///{self.path / 'loadmaster.db'}"

    def __enter__(self) -> Self:
        if "?" in str(self.path):
            raise StartError(f"data directory {self.path} has a '?' in its path; rename it")
        refuse_network(_nearest_existing(self.path))
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_shared(self.path)
            self.logs.mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(self.path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StartError(
                f"cannot use data directory {self.path}: {error.strerror}; "
                "give --data-dir a directory you can write to"
            ) from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = read_holder(self.path)
            os.close(self._lock)
            self._lock = None
            raise StartError(
                f"data directory {self.path} is in use by {_describe(holder)}; "
                "stop it or give another --data-dir"
            ) from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def announce(self, holder: Mapping[str, Any]) -> None:
        """Write into the lock file who holds it."""
        assert self._lock is not None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, json.dumps(holder).encode(), 0)

    def log_file(self, name: str) -> Path:
        """Path of a child's log; a very large one is set aside first, one generation is kept."""
        path = self.logs / f"{name}.log"
        if path.exists() and path.stat().st_size > LARGEST_LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        return path


def read_holder(path: Path) -> Mapping[str, Any]:
    """What the lock file of a data directory says ({} if nothing)."""
    try:
        holder = json.loads((path / LOCK_NAME).read_text())
    except (OSError, ValueError):
        return {}
    return holder if isinstance(holder, dict) else {}


def _describe(holder: Mapping[str, Any]) -> str:
    if "pid" not in holder:
        return "another Loadmaster service"
    url = f" at {holder['url']}" if "url" in holder else ""
    return f"the Loadmaster service of process {holder['pid']}{url}"


def _refuse_shared(path: Path) -> None:
    """A directory that was there before keeps its mode, unless others could write into it."""
    found = path.stat()
    if found.st_uid != os.getuid() or found.st_mode & stat.S_IWOTH:
        raise StartError(
            f"data directory {path} belongs to or can be written by others; "
            "give --data-dir a directory of your own, or a name that does not exist yet"
        )


def _nearest_existing(path: Path) -> Path:
    return next(parent for parent in (path, *path.parents) if parent.exists())
