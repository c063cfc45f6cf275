"""Which addresses may be connected to on a client's behalf.

The rules are written out rather than left to `ipaddress`, whose idea of what is public differs
between versions of Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# The networks of an organisation and of the machine itself: a setting can allow them.
_PRIVATE = tuple(
    map(
        ip_network,
        (
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "::1/128",
            "fc00::/7",
        ),
    )
)
# Nothing that a client names is to be reached there: link-local (cloud metadata), multicast,
# reserved, documentation, and what a cloud's host answers its guests at.
_NEVER = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "168.63.129.16/32",
            "169.254.0.0/16",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
            "2001::/23",  # Teredo, ORCHID and the like
            "2001:db8::/32",
            "3fff::/20",
            "fd00:ec2::/32",  # a cloud's metadata
        ),
    )
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
_SIX_TO_FOUR = IPv6Network("2002::/16")


def may_be_reached(address: Address, *, allow_private: bool, allowed: Iterable[str] = ()) -> bool:
    """Whether a connection to this address is allowed: it is public, or private ones are, or it
    lies in one of the networks that are."""
    address = _without_wrapping(address)
    if any(address in network for network in networks_of(allowed)):
        return True
    if any(address in network for network in _NEVER):
        return False
    if any(address in network for network in _PRIVATE):
        return allow_private
    return isinstance(address, IPv4Address) or address in _GLOBAL_UNICAST


def networks_of(entries: Iterable[str]) -> list[Network]:
    """Those entries of a list of hosts that are addresses or networks."""
    networks = []
    for entry in entries:
        try:
            networks.append(ip_network(entry))
        except ValueError:
            continue
    return networks


def literal_address(host: str) -> Address | None:
    """The address that a URL's host is, or None if it is a name."""
    try:
        return ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None


def _without_wrapping(address: Address) -> Address:
    """The IPv4 address that packets to this one go to in the end."""
    if isinstance(address, IPv4Address):
        return address
    if address in _MAPPED or address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        return IPv4Address((int(address) >> 80) & 0xFFFFFFFF)
    # A scope names an interface: it must not keep an address out of the networks above.
    return IPv6Address(int(address))
