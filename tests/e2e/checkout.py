"""A copy of this checkout as a person would have cloned it, and a bare environment to use it in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def project_files() -> list[str]:
    """Every file that belongs to the project, committed or about to be."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    names = os.fsdecode(listing.stdout).split("\0")
    return [name for name in names if name and (ROOT / name).is_file()]


def copy_checkout(target: Path) -> Path:
    """Copy the project's files to `target`."""
    for name in project_files():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    return target


def bare_environment(**extra: str) -> dict[str, str]:
    """This environment without what the running tests and their Python brought into it."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LOADMASTER_", "PYTEST_", "PYTHON", "VIRTUAL_ENV", "COV_"))
    }
    inside = str(Path(sys.prefix) / "bin")
    path = [entry for entry in own.get("PATH", "").split(":") if entry != inside]
    return {**own, "PATH": ":".join(path), "COLUMNS": "100", **extra}


def python_without(modules: list[str], folder: Path) -> Path:
    """A `python3` like this one that cannot import some modules, in a folder of its own."""
    hidden = folder / "hidden"
    hidden.mkdir(parents=True)
    for module in modules:
        text = f"raise ModuleNotFoundError('No module named {module}')\n"
        (hidden / f"{module}.py").write_text(text)
    program = folder / "python3"
    # The base interpreter: inside an environment, pip would be that of the environment.
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{hidden}" exec "{base}" "$@"\n')
    program.chmod(0o755)
    return program


def has_pip(python: Path) -> bool:
    """Whether `python -m pip` works."""
    return subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0
