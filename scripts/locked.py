"""The locked packages, and what each is licensed under."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "requirements"
GROUPS = ("runtime", "test", "linters", "browser", "audit", "torch")
CLASSIFIERS = {
    "Apache Software License": "Apache-2.0",
    "Eclipse Public License 2.0 (EPL-2.0)": "EPL-2.0",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Zero-Clause BSD (0BSD)": "0BSD",
}
"""Those that name one licence; "BSD License" may be any of four."""
WORDS = {"3-Clause BSD License": "BSD-3-Clause", "Apache 2.0": "Apache-2.0"}
"""What the field `License`, which is free text, says for an identifier."""


@dataclass(frozen=True, order=True)
class Locked:
    """A package as a lock has it."""

    name: str
    version: str


@dataclass(frozen=True)
class Policy:
    """The file requirements/audit.toml."""

    allowed: frozenset[str]
    exceptions: dict[str, str]
    stated: dict[str, str]
    vulnerabilities: dict[str, str]

    def allows(self, name: str, licence: str) -> bool:
        """Whether a package under an SPDX expression may be locked.

        Of alternatives (`OR`) one has to be allowed, of several licences (`AND`) all. Exceptions
        hold for the licence that they were made for only.
        """
        if self.exceptions.get(name, "").partition(":")[0] == licence:
            return True
        either = licence.split(" OR ")
        return any(self.allowed.issuperset(each.split(" AND ")) for each in either)


@cache
def policy() -> Policy:
    """What the packages are held to."""
    document = tomllib.loads((REQUIREMENTS / "audit.toml").read_text())
    return Policy(frozenset(document.pop("allowed")), **document)


def locked(group: str) -> list[Locked]:
    """The packages of a lock, in its order; a package may have several versions."""
    text = (REQUIREMENTS / f"{group}.lock").read_text()
    return [Locked(*found) for found in re.findall(r"^([a-z0-9-]+)==([^\s\\;]+)", text, re.M)]


def bundled() -> list[tuple[Locked, str]]:
    """The JavaScript packages that are in the dashboard, and their licences."""
    document = json.loads((ROOT / "dashboard" / "package-lock.json").read_text())
    return [
        (Locked(path.rpartition("node_modules/")[2], package["version"]), package["license"])
        for path, package in document["packages"].items()
        if path and not package.get("dev")
    ]


def installed_licence(package: Locked, folders: Sequence[str]) -> str | None:
    """What an installed package is licensed under.

    Args:
        package: Which; another version of it will do where this one is for another Python.
        folders: Where to look, as in `sys.path`.

    Returns:
        An SPDX expression, or none where it is not installed or its metadata does not say.
    """
    same = [found.metadata for found in _distributions(package.name, folders)]
    exact = [each for each in same if each["Version"] == package.version]
    metadata: Any = next(iter(exact or same), None)
    return None if metadata is None else _licence_of(metadata)


def _distributions(name: str, folders: Sequence[str]) -> Iterator[importlib.metadata.Distribution]:
    context = importlib.metadata.DistributionFinder.Context(name=name, path=list(folders))
    yield from importlib.metadata.MetadataPathFinder.find_distributions(context)


def _licence_of(metadata: Any) -> str | None:
    for text in (metadata.get("License-Expression"), metadata.get("License")):
        try:
            return str(canonicalize_license_expression(WORDS.get(text or "", text or "")))
        except InvalidLicenseExpression:
            continue
    named = {
        CLASSIFIERS.get(classifier.rpartition(" :: ")[2])
        for classifier in metadata.get_all("Classifier", [])
        if classifier.startswith("License :: OSI Approved ::")
    }
    return named.pop() if len(named) == 1 else None
