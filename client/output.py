"""Where `--output` writes: checked before anything is posted, written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from client.errors import InputError

REMEDY = "Name a file in a folder that exists and that you may write to."


def check_output(path: Path | None) -> None:
    """Raise `InputError` if a result could not be written to `path`. Writes nothing."""
    if path is None:
        return
    try:
        replaceable = _is_replaceable(path)
    except OSError as error:
        raise _refusal(path, str(error.strerror)) from error
    if not replaceable:
        if not os.access(path, os.W_OK):
            raise _refusal(path, "you may not write to it")
        return
    folder = _target(path).parent
    if not folder.is_dir():
        raise _refusal(path, f"there is no folder {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _refusal(path, f"you may not write to the folder {folder}")


def write_result(path: Path, result: Mapping[str, Any]) -> None:
    """Write a result document as JSON, as `write_text` does."""
    write_text(path, json.dumps(result, indent=1) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file.

    A regular file is replaced whole or not at all, behind a link too; anything else (a pipe, a
    device) is opened and written to.
    """
    try:
        if _is_replaceable(path):
            _replace(_target(path), text)
        else:
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(str(path), f"cannot be written: {error.strerror}.", REMEDY) from error


def _is_replaceable(path: Path) -> bool:
    """Whether a path leads to a regular file or to nothing. Raises OSError for a folder."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(0, "it is a folder")
    return stat.S_ISREG(mode)


def _target(path: Path) -> Path:
    """What a path leads to, so that a link stays a link."""
    return Path(os.path.realpath(path))


def _replace(target: Path, text: str) -> None:
    # Opened only if it is new: in a folder of several users the name could be somebody's link.
    partial = target.with_name(f".loadmaster.{secrets.token_hex(8)}.part")
    try:
        with partial.open("x", encoding="utf-8") as file:
            file.write(text)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _refusal(path: Path, reason: str) -> InputError:
    return InputError("--output", f"{path} cannot be written: {reason}.", REMEDY)
