"""Where compiled code is kept: `python -m planner.compiled_cache` prints the folder."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent
COMPILED = "planner.compiled"
IMPORTS = re.compile(r"^from (planner[.\w]*) import", re.MULTILINE)


def sources() -> list[Path]:
    """The modules that hold compiled functions."""
    return [path for path in sorted(PACKAGE.rglob("*.py")) if COMPILED in _imports(path)]


def inputs() -> list[Path]:
    """The modules that hold compiled functions, and those that they import from: constants and
    fields of tuples are compiled into a function, too."""
    modules = {name for path in sources() for name in _imports(path)}
    imported = {PACKAGE.parent.joinpath(*name.split(".")).with_suffix(".py") for name in modules}
    return sorted({*sources(), *filter(Path.is_file, imported)})


def cache_folder() -> Path | None:
    """Where compiled code is kept; None outside a virtual environment: numba then decides.

    Numba looks only at a function's own file to see whether its code is out of date, although the
    functions that it calls are compiled into it. So the folder is named after all that matters.
    """
    if sys.prefix == sys.base_prefix:
        return None
    digest = hashlib.sha256()
    for path in inputs():
        digest.update(path.read_bytes())
    return Path(sys.prefix) / "cache" / "numba" / digest.hexdigest()[:16]


def _imports(path: Path) -> list[str]:
    """The planner's modules that a module imports from at its top."""
    return IMPORTS.findall(path.read_text("utf-8"))


if __name__ == "__main__":
    print(cache_folder() or "")
