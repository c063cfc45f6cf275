"""Who may use the embedded service: by keys, or whoever is on this machine."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from embedded.errors import StartError

TOKEN_FILE = "token"

Authentication = Literal["keys", "off"]


@dataclass(frozen=True)
class Access:
    """How callers are let in."""

    authentication: Authentication
    # Whether a key for people on this machine is put into the data directory.
    token_file: bool = False
    anyone_on_the_network: bool = False

    def environment(self, own: Mapping[str, str], host: str) -> dict[str, str]:
        """The settings of the children that follow from it; `host` is what `--host` said."""
        settings = {
            "LOADMASTER_AUTHENTICATION": self.authentication,
            "LOADMASTER_ALLOW_ANYONE_ON_THE_NETWORK": str(self.anyone_on_the_network).lower(),
            # One person's programs need no limit; whoever shares the service sets one.
            "LOADMASTER_REQUESTS_PER_MINUTE": own.get("LOADMASTER_REQUESTS_PER_MINUTE", "0"),
        }
        if self.authentication == "off" and not _is_address(host):
            settings["LOADMASTER_ALLOWED_HOSTS"] = json.dumps([*_allowed_hosts(own), host])
        return settings


def decide_access(
    *,
    is_loopback: bool,
    authentication: Authentication | None,
    token_file: bool,
    anyone_on_the_network: bool,
) -> Access:
    """What the options mean together. Raises `StartError` where they would let strangers in
    without saying so, or contradict each other."""
    if token_file:
        if authentication == "off":
            raise StartError("--token-file is of no use with --authentication off; drop one")
        return Access("keys", token_file=True)
    if authentication == "keys":
        return Access("keys")
    if is_loopback or anyone_on_the_network:
        return Access("off", anyone_on_the_network=anyone_on_the_network and not is_loopback)
    raise StartError(
        "other machines could reach this address, and nobody would be asked for a key; "
        "give --authentication keys, or --allow-anyone-on-the-network if really everybody may "
        "use the service"
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _allowed_hosts(own: Mapping[str, str]) -> list[str]:
    given = own.get("LOADMASTER_ALLOWED_HOSTS")
    if not given:
        return []
    try:
        names = json.loads(given)
    except ValueError:
        names = None
    if not isinstance(names, list):
        raise StartError('LOADMASTER_ALLOWED_HOSTS has to be a JSON list: ["name"]')
    return [str(name) for name in names]
