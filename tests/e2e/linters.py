"""The linters of the deployment's files, in an environment of their own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.checkout import ROOT

LOCK = ROOT / "requirements" / "linters.lock"


def linters() -> Path:
    """The folder of their programs; they are installed where they are missing."""
    digest = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]
    environment = Path(sys.prefix) / "cache" / "linters" / digest
    if not (environment / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        command = [environment / "bin" / "python", "-m", "pip", "install", "--quiet"]
        command += ["--disable-pip-version-check", "--only-binary", ":all:", "--require-hashes"]
        subprocess.run([*command, "--requirement", LOCK], check=True)
        (environment / "complete").touch()
    return environment / "bin"


def run_linter(name: str, *arguments: str | Path, text: str = "") -> str:
    """What a linter says; an empty string if it has nothing to complain about."""
    folder = linters()
    done = subprocess.run(
        [folder / name, *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        input=text,
        capture_output=True,
        text=True,
    )
    return "" if done.returncode == 0 else f"{done.stdout}\n{done.stderr}"
