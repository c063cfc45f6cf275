"""A client with the key of whoever runs the command."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import click

from app.settings import DEFAULT_DATA_DIR
from client.errors import InputError
from client.library.retries import NO_RETRIES
from client.library.service import Service
from embedded.access import TOKEN_FILE
from embedded.data_dir import read_holder

KEY_FILE = "client.api_key_file"
"""Where click's context holds what `--api-key-file` said."""
LOOPBACK = ("127.0.0.1", "::1")


def connect(server: str) -> Service:
    """The service at this address. Its first answer counts: who sits at a terminal can try again.

    The key is that of `access`.
    """
    address, key = access(server)
    return Service(address, api_key=key, retries=NO_RETRIES)


def access(server: str) -> tuple[str, str | None]:
    """Where to ask the service at this address, and the key for it: the one in the file of
    `--api-key-file`, in the variable LOADMASTER_API_KEY, or in the token file of the service that
    runs on this machine; None without any."""
    context = click.get_current_context(silent=True)
    file = None if context is None else context.meta.get(KEY_FILE)
    if file is not None:
        return server, _read(file)
    key = os.environ.get("LOADMASTER_API_KEY")
    if key:
        return server, key
    folder = Path(os.environ.get("LOADMASTER_DATA_DIR") or DEFAULT_DATA_DIR)
    url = read_holder(folder).get("url")
    if not isinstance(url, str) or not _is_same_service(server, url):
        return server, None
    # At the address that the service wrote there: `localhost` has several, and at another one
    # somebody else of this machine may listen for its token.
    return url, _token_in(folder)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError("--api-key-file", f"cannot be read: {reason}.", "Name a file.") from error


def _is_same_service(server: str, url: str) -> bool:
    """Whether this is the address of a service, or says `localhost` for its loopback address."""
    if server.rstrip("/") == url:
        return True
    try:
        asked, own = urlsplit(server.rstrip("/")), urlsplit(url)
        is_same_port = asked.port == own.port
    except ValueError:
        return False
    return (
        is_same_port
        and (asked.scheme, asked.hostname) == (own.scheme, "localhost")
        and own.hostname in LOOPBACK
        and "@" not in asked.netloc
        and (asked.path, asked.query) == (own.path, own.query)
    )


def _token_in(folder: Path) -> str | None:
    try:
        return (folder / TOKEN_FILE).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
