"""Where compiled code is kept: `python -m planner.compiled_cache` prints the folder."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

IMPORT = "\nfrom planner.compiled import"


def sources() -> list[Path]:
    """The modules that hold compiled functions."""
    modules = sorted(Path(__file__).parent.rglob("*.py"))
    return [path for path in modules if IMPORT in path.read_text("utf-8")]


def cache_folder() -> Path | None:
    """Where compiled code is kept; None outside a virtual environment: numba then decides.

    Numba looks only at a function's own file to see whether its code is out of date, although the
    functions that it calls are compiled into it. So the folder is named after all of them.
    """
    if sys.prefix == sys.base_prefix:
        return None
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.read_bytes())
    return Path(sys.prefix) / "cache" / "numba" / digest.hexdigest()[:16]


if __name__ == "__main__":
    print(cache_folder() or "")
