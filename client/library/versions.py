"""Which services this library works with.

Every answer of a service says its version (`Loadmaster-Version: 0.8.0`). Versions are
MAJOR.MINOR.PATCH: within a major version, minor versions only add to the API. The library works
with every service of its own major version whose minor version is at least the one it was written
for, so newer services are fine and older ones are refused.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from client.errors import IncompatibleServer

VERSION_HEADER = "Loadmaster-Version"
_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})(?:\.[0-9A-Za-z.+-]*)?")


class ApiVersion(NamedTuple):
    """What of a version says whether it fits."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


NEEDED = ApiVersion(0, 7)
"""The first version with everything that the library asks for."""


def check_version(server: str, said: str | None) -> None:
    """Raise `IncompatibleServer` unless a service that says this version can be worked with."""
    if said is None:
        raise IncompatibleServer(
            f"{server} does not say its version: it is older than Loadmaster {NEEDED}, or none at "
            f"all. Update the service to {NEEDED} or later, or name another one."
        )
    found = _VERSION.fullmatch(said)
    if found is None:
        raise IncompatibleServer(f"{server} says that its version is {said!r}, which is none.")
    version = ApiVersion(int(found.group(1)), int(found.group(2)))
    if version.major != NEEDED.major:
        older = version.major > NEEDED.major
        raise IncompatibleServer(
            f"{server} is Loadmaster {said}; this client works with {NEEDED.major}.x from {NEEDED} "
            f"on. Update {'this client' if older else 'the service'}."
        )
    if version.minor < NEEDED.minor:
        raise IncompatibleServer(
            f"{server} is Loadmaster {said}; this client needs {NEEDED} or later. Update the "
            f"service, or install `loadmaster=={version}.*` here."
        )
