"""Packs the files of a commit and the locked wheels for one platform: see `scripts/bundle`."""

from __future__ import annotations

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements" / "runtime.lock"
# glibc 2.28: Debian 10, Ubuntu 18.10, RHEL 8 and whatever is newer.
MANYLINUX = ("2014", *(f"_2_{minor}" for minor in range(5, 29)))


def main() -> None:
    """Make the archive and print its path."""
    options = _options()
    version = _version()
    name = f"loadmaster-{version}-py{options.python}-linux-{options.platform}"
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="loadmaster-bundle-") as temporary:
        folder = Path(temporary) / name
        folder.mkdir()
        _copy_commit(folder)
        download(folder / "wheelhouse", options.platform, options.python)
        shutil.copy2(ROOT / "scripts" / "install-bundle", folder / "install")
        # Wheels are compressed already.
        target = options.output.resolve() / name
        archive = shutil.make_archive(str(target), "gztar", root_dir=temporary, base_dir=name)
    print(archive)


def download(wheelhouse: Path, machine: str, python: str) -> None:
    """Fetch every locked wheel for a machine and a Python, checked by its hash; note for which."""
    wheelhouse.mkdir()
    lock = wheelhouse / "runtime.lock"
    lock.write_text("".join(locked_for(LOCK.read_text(), machine, python)))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--require-hashes", "--no-deps", "--only-binary", ":all:"]
    command += ["--implementation", "cp", "--python-version", python]
    for tag in MANYLINUX:
        command += ["--platform", f"manylinux{tag}_{machine}"]
    command += ["--dest", str(wheelhouse), "--requirement", str(lock)]
    if subprocess.run(command).returncode != 0:
        raise SystemExit(f"not every locked package has a wheel for {machine} and Python {python}")
    lock.unlink()
    (wheelhouse / "made-for").write_text(f"{python} {machine}\n")


def locked_for(lock: str, machine: str, python: str) -> Iterator[str]:
    """The entries of a lock that hold for a machine and a Python.

    pip would read their conditions as those of the Python that it runs on itself.
    """
    environment = {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{python}.99",
        "python_version": python,
        "sys_platform": "linux",
    }
    for entry in re.findall(r"^\S.*\n(?:[ \t].*\n?)*", lock, flags=re.MULTILINE):
        first, _, hashes = entry.partition("\\\n")
        requirement = Requirement(first)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield f"{requirement.name}{requirement.specifier} \\\n{hashes}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bundle", description=__doc__)
    parser.add_argument("--platform", choices=["x86_64", "aarch64"], default=platform.machine())
    parser.add_argument("--python", metavar="3.N", default=f"3.{sys.version_info.minor}")
    parser.add_argument("--output", type=Path, metavar="FOLDER", default=Path("build"))
    options = parser.parse_args()
    if not re.fullmatch(r"3\.\d+", options.python):
        parser.error("--python takes a version such as 3.13")
    return options


def _version() -> str:
    command = [sys.executable, "-c", "from planner.version import __version__; print(__version__)"]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


def _copy_commit(folder: Path) -> None:
    changed = subprocess.check_output(["git", "status", "--porcelain"], cwd=ROOT, text=True)
    if changed:
        print("what is not committed is left out", file=sys.stderr)
    archive = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    subprocess.run(["tar", "--extract", "--directory", folder], input=archive.stdout, check=True)


if __name__ == "__main__":
    main()
