"""The API's socket: what it is bound to, and why it cannot be."""

from __future__ import annotations

import socket

import pytest

from embedded.errors import StartError
from embedded.listener import is_loopback, listen, url_of


def test_free_port_is_taken_and_named() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        assert is_loopback(listener)
        with socket.create_connection(("127.0.0.1", port)):
            pass


def test_all_addresses_are_reached_by_the_loopback_one() -> None:
    with listen("0.0.0.0", 0) as listener:
        assert url_of(listener).startswith("http://127.0.0.1:")
        assert not is_loopback(listener)


def test_port_in_use_is_one_line_with_a_way_out() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(StartError) as caught:
            listen("127.0.0.1", port)
    assert str(caught.value).startswith(f"port {port} on 127.0.0.1 is already in use")
    assert "\n" not in str(caught.value)


def test_foreign_and_unknown_hosts_are_refused() -> None:
    with pytest.raises(StartError, match="--host"):
        listen("192.0.2.1", 0)
    with pytest.raises(StartError, match="unknown"):
        listen("no such host.invalid", 0)
