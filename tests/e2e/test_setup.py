"""`scripts/setup` says in one line what is missing, and does nothing twice."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.e2e.checkout import bare_environment, copy_checkout, python_without


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return copy_checkout(tmp_path / "clone")


def set_up(checkout: Path, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "scripts" / "setup", *arguments],
        env=bare_environment(**extra),
        capture_output=True,
        text=True,
    )


def test_python_without_ensurepip_and_pip_is_told_what_to_install(
    checkout: Path, tmp_path: Path
) -> None:
    python = python_without(["ensurepip", "pip"], tmp_path / "bin")
    done = set_up(checkout, PYTHON=str(python))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "apt-get install python3-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_python_without_venv_is_told_what_to_install(checkout: Path, tmp_path: Path) -> None:
    python = python_without(["venv"], tmp_path / "bin")
    done = set_up(checkout, PYTHON=str(python))
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr


def test_full_disk_is_told_before_anything_is_made(checkout: Path, tmp_path: Path) -> None:
    df = tmp_path / "bin" / "df"
    df.parent.mkdir()
    df.write_text("#!/bin/sh\necho header\necho disk 9 9 2000000 1% /\n")
    df.chmod(0o755)
    environment = bare_environment()
    done = set_up(checkout, PATH=f"{df.parent}:{environment['PATH']}")
    assert done.returncode == 1
    assert "3 GB of free disk space are needed here, 2000 MB are left" in done.stderr
    assert not (checkout / ".venv").exists()


def test_unknown_argument_is_refused(checkout: Path) -> None:
    done = set_up(checkout, "--tset")
    assert done.returncode == 1
    assert "--test" in done.stderr


def make_current_environment(checkout: Path) -> Path:
    """An environment that is up to date, whose Python only says where compiled code is kept, and
    fills that folder, which is returned, when asked to."""
    stamp = str(checkout) + "\n"
    for name in ("requirements/test.lock", "pyproject.toml"):
        stamp += hashlib.sha256((checkout / name).read_bytes()).hexdigest() + "  -\n"
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    (checkout / ".venv" / ".made-from-test").write_text(stamp)
    folder = checkout / ".venv" / "cache"
    folder.mkdir()
    python.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f'    "-m planner.compiled_cache") echo "{folder}" ;;\n'
        f'    "-m planner.warm_up") touch "{folder}/complete" ;;\n'
        "    *) exit 1 ;;\n"
        "esac\n"
    )
    python.chmod(0o755)
    return folder


def test_nothing_is_done_where_nothing_has_changed(checkout: Path) -> None:
    (make_current_environment(checkout) / "complete").touch()
    for arguments in ([], ["--test"]):
        done = set_up(checkout, *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("arguments", [[], ["--test"]])
def test_a_solver_that_has_changed_is_compiled(checkout: Path, arguments: list[str]) -> None:
    folder = make_current_environment(checkout)
    done = set_up(checkout, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert "compiling the solver" in done.stdout
    assert (folder / "complete").exists()


def test_locks_have_hashes_and_no_addresses(checkout: Path) -> None:
    for name in ("runtime.lock", "test.lock"):
        text = (checkout / "requirements" / name).read_text()
        assert "://" not in text
        packages = [line for line in text.splitlines() if line and line[0] not in " #-"]
        assert len(packages) > 40
        assert all("==" in line and line.endswith("\\") for line in packages)


def test_test_packages_include_those_of_the_service(checkout: Path) -> None:
    def locked(name: str) -> set[str]:
        text = (checkout / "requirements" / name).read_text()
        return {line.split(" ")[0] for line in text.splitlines() if "==" in line}

    assert locked("runtime.lock") <= locked("test.lock")
