"""Hosts, origins and clients as requests name them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.security.addresses import (
    Host,
    client_of,
    is_loopback,
    parse_host,
    parse_origin,
    same_address,
    with_port,
)

NAMES = st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}(\.[a-z0-9][a-z0-9-]{0,20}){0,3}", fullmatch=True)
PORTS = st.integers(0, 65535)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", Host("localhost", None)),
        ("LocalHost:8400", Host("localhost", 8400)),
        ("example.com.:80", Host("example.com", 80)),
        ("127.0.0.1:8400", Host("127.0.0.1", 8400)),
        ("[::1]", Host("::1", None)),
        ("[0:0::1]:8400", Host("::1", 8400)),
        ("", None),
        (".", None),
        ("::1", None),
        ("[::1", None),
        ("[1.2.3.4]", None),
        ("[::1]8400", None),
        ("localhost:", None),
        ("localhost:99999", None),
        ("localhost:8400:1", None),
        ("user@localhost", None),
        ("localhost/path", None),
        ("localhost\n", None),
        ("localhost, evil.example", None),
    ],
)
def test_host_is_read(text: str, expected: Host | None) -> None:
    assert parse_host(text) == expected


@given(NAMES, st.none() | PORTS)
def test_host_is_read_in_any_case(name: str, port: int | None) -> None:
    written = name if port is None else f"{name}:{port}"
    assert parse_host(written.upper()) == Host(name, port)


@given(st.ip_addresses(v=6), PORTS)
def test_address_is_the_same_however_it_is_written(
    address: ipaddress.IPv6Address, port: int
) -> None:
    long, short = (parse_host(f"[{text}]:{port}") for text in (address.exploded, str(address)))
    assert long == short == Host(str(address), port)
    assert same_address(str(address), address.exploded)


@given(st.text(max_size=40))
def test_no_text_upsets_the_readers(text: str) -> None:
    host = parse_host(text)
    assert host is None or "/" not in host.name
    parse_origin(text)
    parse_origin(f"http://{text}")
    client_of(text)
    is_loopback(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://localhost:3000", Host("localhost", 3000)),
        ("http://localhost", Host("localhost", 80)),
        ("https://[::1]", Host("::1", 443)),
        ("chrome-extension://abc", Host("abc", None)),
        ("null", None),
        ("", None),
        ("http://", None),
        ("http://localhost/", None),
        ("http://a@localhost", None),
        ("localhost:8400", None),
    ],
)
def test_origin_is_read(text: str, expected: Host | None) -> None:
    assert parse_origin(text) == expected


def test_port_is_the_schemes_unless_given() -> None:
    assert with_port(Host("a", None), "https") == Host("a", 443)
    assert with_port(Host("a", 8400), "https") == Host("a", 8400)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
def test_this_machine_is_told_from_others(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "10.0.0.1", "::", "fe80::1", "testserver", ""])
def test_others_are_told_from_this_machine(address: str) -> None:
    assert not is_loopback(address)


def test_who_has_a_network_is_one_client() -> None:
    assert client_of("2001:db8:0:1::5") == client_of("2001:db8:0:1:ffff::9")
    assert client_of("2001:db8:0:1::5") != client_of("2001:db8:0:2::5")
    assert client_of("::ffff:10.0.0.1") == client_of("10.0.0.1") == "10.0.0.1"
    assert client_of(None) == client_of("/run/socket") == "unknown"
