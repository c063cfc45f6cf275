"""`python -m app.token_file PATH`: a key for the people of one machine, in a file of their own.

The file is kept as long as its key opens the service, so that a restart changes nothing.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from app.callers import Scope
from app.database import Database
from app.models import DEFAULT_TENANT
from app.security.keys import Key
from app.services.keys import KeyRing
from app.settings import Settings

NAME = "token file"


def ensure_token_file(path: Path, keys: KeyRing) -> bool:
    """Make the file unless it holds a valid key; whether it was made."""
    try:
        if keys.is_valid(path.read_text(encoding="ascii").strip()):
            return False
    except (FileNotFoundError, UnicodeDecodeError):
        pass
    _write(path, keys.create("loadmaster serve", tenant=DEFAULT_TENANT, name=NAME, scopes=Scope))
    return True


def _write(path: Path, key: Key) -> None:
    """All at once: whoever reads it finds the old key or the new one."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(f"{key.text}\n")
    draft.replace(path)


def main() -> None:
    """Make the file that the command line names."""
    database = Database(Settings())
    ensure_token_file(Path(sys.argv[1]), KeyRing(database))
    database.dispose()


if __name__ == "__main__":
    main()
