"""Reading the names and addresses that a request gives: its host, its origin, its client."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(.+)")
DEFAULT_PORTS = {"http": 80, "https": 443}
CLIENT_NETWORK_BITS = 64
"""Of an IPv6 address: whoever has one has all with these bits, and counts as one client."""


class Host(NamedTuple):
    """A name or IP address (without brackets), in small letters, and a port if one is given."""

    name: str
    port: int | None


def parse_host(text: str) -> Host | None:
    """The value of a Host header; None if it is none."""
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    name, port = match.groups()
    if name.startswith("["):
        address = _address(name[1:-1])
        if address is None or address.version == 4:
            return None
        name = str(address)
    else:
        name = name.lower().rstrip(".")
    if not name or (port is not None and int(port) > 65535):
        return None
    return Host(name, None if port is None else int(port))


def parse_origin(text: str) -> Host | None:
    """Host and port of an origin, whose scheme says the port where none is given. None for
    `null` and whatever is no origin."""
    match = _ORIGIN.fullmatch(text)
    host = None if match is None else parse_host(match[2])
    if match is None or host is None:
        return None
    return with_port(host, match[1])


def with_port(host: Host, scheme: str) -> Host:
    """The host with the port that is meant where none is given."""
    return host if host.port is not None else Host(host.name, DEFAULT_PORTS.get(scheme))


def is_loopback(address: str) -> bool:
    """Whether what arrives at this address of a socket comes from the same machine."""
    parsed = _address(address)
    if parsed is None:
        return address == "localhost"
    mapped = getattr(parsed, "ipv4_mapped", None)
    return (mapped or parsed).is_loopback


def same_address(name: str, address: str) -> bool:
    """Whether a host's name is this IP address, however each is written."""
    parsed = _address(name)
    return parsed is not None and parsed == _address(address)


def client_of(address: str | None) -> str:
    """What counts as one client: an IPv4 address or the network of an IPv6 address."""
    parsed = None if address is None else _address(address)
    if parsed is None:
        return "unknown"
    mapped = getattr(parsed, "ipv4_mapped", None)
    if parsed.version == 4 or mapped is not None:
        return str(mapped or parsed)
    network = ipaddress.ip_network((int(parsed), CLIENT_NETWORK_BITS), strict=False)
    return str(network.network_address)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
