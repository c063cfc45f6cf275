"""A client with the key of whoever runs the command."""

from __future__ import annotations

import os
from pathlib import Path

import click

from client.api import LoadmasterClient
from client.errors import InputError
from embedded.access import TOKEN_FILE
from embedded.data_dir import read_holder

KEY_FILE = "client.api_key_file"
"""Where click's context holds what `--api-key-file` said."""
DEFAULT_DATA_DIR = Path("loadmaster-data")


def connect(server: str) -> LoadmasterClient:
    """A client of this service. The key is the one in the file of `--api-key-file`, in the
    variable LOADMASTER_API_KEY, or in the token file of the service that runs on this machine."""
    context = click.get_current_context(silent=True)
    file = None if context is None else context.meta.get(KEY_FILE)
    if file is not None:
        return LoadmasterClient(server, api_key=_read(file))
    key = os.environ.get("LOADMASTER_API_KEY")
    return LoadmasterClient(server, api_key=key or _token_of(server))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise InputError("--api-key-file", f"cannot be read: {reason}.", "Name a file.") from error


def _token_of(server: str) -> str | None:
    """The token of the service whose data directory this is, if it is the one that is asked."""
    folder = Path(os.environ.get("LOADMASTER_DATA_DIR") or DEFAULT_DATA_DIR)
    if read_holder(folder).get("url") != server.rstrip("/"):
        return None
    try:
        return (folder / TOKEN_FILE).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
