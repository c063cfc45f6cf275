"""Writes the lists of THIRD-PARTY-LICENSES.md anew, from the locks and the packages' metadata.

    .venv/bin/python -m scripts.licences [ENVIRONMENT ...]

Run it after a lock has changed, with the packages of that lock installed. Packages that are in
other environments (the linters' and the audit's are below .venv/cache) are found where those are
named. What is not installed anywhere keeps what the page said of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from scripts.locked import ROOT, Locked, bundled, installed_licence, locked, policy

PAGE = ROOT / "THIRD-PARTY-LICENSES.md"
ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|", re.MULTILINE)
DEVELOPMENT = ("test", "linters", "browser", "audit", "torch")
PLATFORM = {"sys_platform": "linux", "platform_machine": "x86_64"}


class UnknownLicence(SystemExit):
    """Neither the metadata nor requirements/audit.toml nor the page says a package's licence."""


def known_licences(page: str) -> dict[Locked, str]:
    """The licences that a page gives, by package."""
    return {Locked(name, version): licence for name, version, licence in ROW.findall(page)}


def licence_of(package: Locked, folders: Sequence[str], before: Mapping[Locked, str]) -> str:
    """A package's licence: stated by us, in its metadata, or as it was."""
    stated = policy().stated.get(package.name)
    licence = stated or installed_licence(package, folders) or before.get(package)
    if licence is None:
        raise UnknownLicence(
            f"{package.name} {package.version}: install it, or state its licence in "
            "requirements/audit.toml"
        )
    return licence


def page_anew(page: str, folders: Sequence[str]) -> str:
    """The page with every list as the locks have it now."""
    before = known_licences(page)
    runtime = locked("runtime")
    others = sorted({each for group in DEVELOPMENT for each in locked(group)} - set(runtime))
    parts = {
        "service": _table({each: licence_of(each, folders, before) for each in runtime}),
        "dashboard": _table(dict(bundled())),
        "development": _table({each: licence_of(each, folders, before) for each in others}),
        "image": _image(),
    }
    for name, text in parts.items():
        mark = f"<!-- {name}: made by scripts.licences -->"
        start, found, rest = page.partition(f"{mark}\n")
        if not found:
            raise SystemExit(f"{PAGE.name} has no place for the list: {mark}")
        page = f"{start}{mark}\n\n{text}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return page


def _table(licences: Mapping[Locked, str]) -> str:
    rows = [f"| `{each.name}` | {each.version} | {licences[each]} |" for each in licences]
    return "\n".join(["| package | version | licence |", "| --- | --- | --- |", *rows])


def _image() -> str:
    dockerfile = (ROOT / "Dockerfile").read_text()
    base = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)[-1]
    python = base.removeprefix("python:").partition("-")[0]
    added = re.findall(r"apt-get install ([^&\n]+)", dockerfile)
    packages = ", ".join(f"`{name} {version}`" for name, version in in_image(python))
    return "\n".join(
        [
            f"- **Base image**: `{base}`.",
            f"- **Debian packages** added to it: {', '.join(added) or 'none'}.",
            f"- **Python packages**, below `/opt/loadmaster/lib/python{python}/site-packages`: "
            f"{packages}.",
            "- **Dashboard**: "
            + ", ".join(f"`{each.name} {each.version}`" for each, _ in bundled())
            + ", bundled into the files of `app/dashboard`.",
        ]
    )


def in_image(python: str) -> list[tuple[str, str]]:
    """Name and version of the locked packages for the newest `python` (like 3.13), without the
    installers that the image is made with."""
    text = (ROOT / "requirements" / "runtime.lock").read_text()
    environment = {**PLATFORM, "python_version": python, "python_full_version": f"{python}.99"}
    removed = re.search(r"pip uninstall --yes ([a-z ]+)", (ROOT / "Dockerfile").read_text())
    gone = set(removed[1].split()) if removed else set()
    found = []
    for line in re.findall(r"^[a-z0-9-]+==.*", text, re.MULTILINE):
        requirement = Requirement(line.rstrip("\\ "))
        if requirement.marker and not requirement.marker.evaluate(environment):
            continue
        if requirement.name not in gone:
            found.append((requirement.name, str(requirement.specifier).removeprefix("==")))
    return found


def main() -> None:
    """Write the page; the arguments are environments to look in beside the one that runs this."""
    folders = [*sys.path]
    for environment in sys.argv[1:]:
        folders += [str(path) for path in Path(environment).glob("lib/python*/site-packages")]
    PAGE.write_text(page_anew(PAGE.read_text(), folders))
    print(f"{PAGE.name} is up to date")


if __name__ == "__main__":
    main()
