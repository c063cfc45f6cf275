"""Which addresses may be connected to on a client's behalf."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.services.webhooks.addresses import may_be_reached

PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001:81b::200e"]
PRIVATE = [
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.0.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "::1",
    "fc00::1",
    "fdff::1",
]
NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "168.63.129.16",
    "169.254.169.254",
    "192.0.0.192",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::127.0.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "fd00:ec2::254",
    "2001::1",
    "2001:db8::1",
    "64:ff9b:1::a00:1",
    "100::1",
    "5f00::1",
]


def reached(address: str, *, allow_private: bool = False, allowed: tuple[str, ...] = ()) -> bool:
    return may_be_reached(ip_address(address), allow_private=allow_private, allowed=allowed)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_reached(address: str) -> None:
    assert reached(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_need_to_be_allowed(address: str) -> None:
    assert not reached(address)
    assert reached(address, allow_private=True)
    assert reached(address, allowed=(address,))


@pytest.mark.parametrize("address", NEVER)
def test_the_rest_is_reached_by_name_of_its_network_only(address: str) -> None:
    assert not reached(address)
    assert not reached(address, allow_private=True)


def test_a_network_can_be_allowed_alone() -> None:
    assert reached("10.1.2.3", allowed=("hooks.example", "10.1.0.0/16"))
    assert not reached("10.2.2.3", allowed=("10.1.0.0/16",))
    assert reached("169.254.169.254", allowed=("169.254.169.254",))


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_within_ipv6_is_judged_as_itself(address: IPv4Address) -> None:
    number = int(address)
    expected = may_be_reached(address, allow_private=False)
    for wrapped in (
        (0xFFFF << 32) | number,
        int(IPv6Address("64:ff9b::")) | number,
        int(IPv6Address("2002::")) | (number << 80) | 1,
    ):
        assert may_be_reached(IPv6Address(wrapped), allow_private=False) is expected


@given(st.ip_addresses())
def test_what_python_calls_special_is_never_public(address: IPv4Address | IPv6Address) -> None:
    special = (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address.is_private
    )
    if special:
        assert not may_be_reached(address, allow_private=False) or _wraps_a_public_one(address)


def _wraps_a_public_one(address: IPv4Address | IPv6Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None
