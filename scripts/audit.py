"""Checks licences and known vulnerabilities of the locked packages: see `scripts/audit`."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from scripts.licences import PAGE, known_licences
from scripts.locked import GROUPS, REQUIREMENTS, Policy, bundled, locked, policy

AUDITED = REQUIREMENTS / "test.lock"
"""What is asked about: the packages of the service, which this lock has too, and of the tests."""
PROBE = "click"
"""What is asked about first, so that a network without the service costs one call."""
UNREACHABLE = re.compile(r"Connection|Timeout|timed out|HTTPError|ProxyError|redirecting")
LONGEST_S = 300


class Unreachable(Exception):
    """Nobody can say whether there are vulnerabilities; the argument says why."""


class AuditFailed(Exception):
    """pip-audit ended in another way than with an answer; the argument is what it said last."""


def faults_of_licences(page: str, rules: Policy) -> list[str]:
    """A line for each locked package that is not on the page, or not under an allowed licence."""
    licences = known_licences(page)
    packages = {each for group in GROUPS for each in locked(group)}
    packages |= {package for package, _ in bundled()}
    faults = []
    for package in sorted(packages):
        words = f"{package.name} {package.version}"
        if package not in licences:
            faults.append(f"{words} is not in {PAGE.name}: run python -m scripts.licences")
        elif not rules.allows(package.name, licences[package]):
            faults.append(
                f"{words} is under {licences[package]}, which requirements/audit.toml allows "
                "neither in general nor for this package"
            )
    return faults


def vulnerabilities(program: Path, rules: Policy) -> list[str]:
    """A line for each known vulnerability of a locked package that has not been reviewed.

    Args:
        program: pip-audit.
        rules: Which vulnerabilities have been found not to matter.

    Raises:
        Unreachable: The service cannot be asked, or knows none of the packages.
        AuditFailed: pip-audit fails for another reason.
    """
    probe = next(each for each in locked("test") if each.name == PROBE)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(f"{probe.name}=={probe.version}\n")
        file.flush()
        _ask(program, Path(file.name), "--no-deps")
    return [
        f"{package['name']} {package['version']}: {found['id']}"
        f" (fixed in {', '.join(found['fix_versions']) or 'no version yet'})"
        for package in _ask(program, AUDITED, "--require-hashes")
        for found in package.get("vulns", [])
        if rules.vulnerabilities.keys().isdisjoint({found["id"], *found.get("aliases", [])})
    ]


def _ask(program: Path, requirements: Path, *options: str) -> list[dict[str, Any]]:
    form = ["--format", "json", "--progress-spinner", "off"]
    which = ["--disable-pip", *options, "--requirement", str(requirements)]
    command = [str(program), *form, *which]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S)
    except subprocess.TimeoutExpired as error:
        raise Unreachable(f"no answer within {LONGEST_S} s") from error
    said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except ValueError as error:
        kind = Unreachable if UNREACHABLE.search(done.stderr) else AuditFailed
        raise kind(said) from error
    if all("skip_reason" in package for package in packages):
        raise Unreachable("it knows none of the packages")
    return packages


def pip_audit() -> Path:
    """The program, in an environment of its own that is made where it is missing.

    Raises:
        Unreachable: It cannot be installed.
    """
    lock = REQUIREMENTS / "audit.lock"
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:16]
    environment = Path(sys.prefix) / "cache" / "audit" / digest
    if not (environment / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        options = ["--quiet", "--disable-pip-version-check", "--require-hashes"]
        install = [str(environment / "bin" / "python"), "-m", "pip", "install", *options]
        install += ["--requirement", str(lock)]
        if subprocess.run(install, capture_output=True).returncode != 0:
            raise Unreachable("pip-audit could not be installed")
        (environment / "complete").touch()
    return environment / "bin" / "pip-audit"


def main() -> int:
    """Run the checks; returns the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/audit", description=__doc__)
    parser.add_argument("--licences", action="store_true", help="look at licences only")
    only_licences = parser.parse_args().licences
    rules = policy()
    faults = faults_of_licences(PAGE.read_text(), rules)
    if not faults and not only_licences:
        try:
            faults = vulnerabilities(pip_audit(), rules)
        except Unreachable as reason:
            print(f"audit: licences are fine; vulnerabilities could not be asked for: {reason}")
            return 0
        except AuditFailed as reason:
            faults = [f"pip-audit failed: {reason}"]
    for fault in faults:
        print(f"audit: {fault}", file=sys.stderr)
    if not faults:
        print("audit: nothing found")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
