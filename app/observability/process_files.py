"""The folder in which processes of one machine keep their metrics, so that any can add them up.

`PROMETHEUS_MULTIPROC_DIR` names it, which the Prometheus client reads when it is first imported;
without it each process counts alone. A process keeps its counts in files that are named after its
number. Those of processes that ended are merged into one file, so that nothing that was counted
is lost and the folder does not grow.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
LOCK_NAME = "lock"
ENDED = "ended"
# What the client library raises for a file whose process was killed while it made it.
UNREADABLE = (struct.error, RuntimeError, ValueError)
_OF_A_PROCESS = re.compile(r"(?P<prefix>[a-z_]+)_(?P<pid>\d+)\.db")


def metrics_folder() -> Path | None:
    """The folder that processes share; it is made where it is missing."""
    named = os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    folder = Path(named)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(folder: Path, *, exclusive: bool) -> Iterator[None]:
    """While it holds, files are merged by nobody else, or (not exclusive) by nobody."""
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def merge_ended(folder: Path) -> None:
    """Merge the files of processes that are gone; gauges of what they had open go with them."""
    with locked(folder, exclusive=True):
        for path in sorted(folder.glob("*.db")):
            named = _OF_A_PROCESS.fullmatch(path.name)
            if named is None or _is_alive(int(named["pid"])):
                continue
            if not named["prefix"].startswith("gauge"):
                try:
                    _add(path, folder / f"{named['prefix']}_{ENDED}.db")
                except UNREADABLE as error:
                    logger.warning("the counts in %s cannot be read: %s", path, error)
            path.unlink()


def _add(source: Path, target: Path) -> None:
    from prometheus_client import mmap_dict

    values: Any = mmap_dict.MmapedDict
    total = values(str(target))
    try:
        for key, value, timestamp, _ in values.read_all_values_from_file(str(source)):
            so_far, _ = total.read_value(key)
            total.write_value(key, so_far + value, timestamp)
    finally:
        total.close()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
