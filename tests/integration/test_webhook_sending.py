"""One POST to a receiver: to the checked addresses only, in bounded time and memory."""

from __future__ import annotations

import socket
import ssl
import time
from ipaddress import ip_address

import pytest

from app.services.webhooks.sending import NoAnswer, Sender
from app.services.webhooks.targets import Endpoint
from tests.integration.receivers import CERTIFICATE, raw_receiver, receiver

LOCAL = [ip_address("127.0.0.1")]


def test_the_connection_goes_to_the_checked_address_under_the_receivers_name() -> None:
    with receiver() as known:
        # No resolver knows this name, so nobody but the sender chose the address.
        endpoint = Endpoint.of(f"http://hooks.invalid:{known.port}/a?b")
        assert Sender(10).post(endpoint, LOCAL, b"news", {"webhook-id": "1"}) == 204
    path, headers, body = known.received[0]
    assert (path, body) == ("/a?b", b"news")
    assert headers["host"] == f"hooks.invalid:{known.port}"
    assert headers["webhook-id"] == "1"


def test_tls_is_with_the_name_although_the_address_is_pinned() -> None:
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    with receiver(tls=True) as known:
        right = Endpoint.of(f"https://hooks.example:{known.port}/")
        wrong = Endpoint.of(f"https://other.example:{known.port}/")
        assert Sender(10, trusting).post(right, LOCAL, b"news", {}) == 204
        with pytest.raises(NoAnswer, match="certificate is not valid: Hostname mismatch"):
            Sender(10, trusting).post(wrong, LOCAL, b"news", {})
        with pytest.raises(NoAnswer, match="certificate is not valid"):
            Sender(10).post(right, LOCAL, b"news", {})
    assert len(known.received) == 1


def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    with receiver() as known:
        assert Sender(10).post(Endpoint.of(known.url), LOCAL, b"news", {}) == 204


def test_redirects_are_not_followed() -> None:
    with receiver() as other, receiver(statuses=[307], headers={"Location": other.url}) as known:
        assert Sender(10).post(Endpoint.of(known.url), LOCAL, b"news", {}) == 307
        assert not other.received


def test_another_address_is_tried_where_the_first_does_not_answer() -> None:
    with receiver() as known:
        addresses = [ip_address("127.0.0.2"), *LOCAL]
        assert Sender(10).post(Endpoint.of(known.url), addresses, b"news", {}) == 204


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(NoAnswer, match="refused"):
        Sender(10).post(Endpoint.of(f"http://hooks.invalid:{port}/"), LOCAL, b"", {})
    with pytest.raises(NoAnswer):
        Sender(10).post(Endpoint.of(f"http://hooks.invalid:{port}/"), [], b"", {})


def test_a_receiver_that_trickles_is_left_when_the_time_is_up() -> None:
    def trickle(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        for number in range(1000):
            connection.sendall(b"x-%d: y\r\n" % number)
            time.sleep(0.1)

    with raw_receiver(trickle) as port:
        began = time.monotonic()
        with pytest.raises(NoAnswer, match="no answer within 1 s"):
            Sender(1).post(Endpoint.of(f"http://hooks.invalid:{port}/"), LOCAL, b"news", {})
        assert time.monotonic() - began < 15


def test_of_an_endless_answer_only_a_little_is_read() -> None:
    sent = [0]

    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            sent[0] += 65536

    with raw_receiver(flood) as port:
        endpoint = Endpoint.of(f"http://hooks.invalid:{port}/")
        assert Sender(30).post(endpoint, LOCAL, b"news", {}) == 200
        assert sent[0] < 64 * 2**20


@pytest.mark.parametrize("answer", [b"", b"220 mail.example ESMTP\r\n", b"\x00" * 200_000])
def test_what_is_no_http_is_no_answer(answer: bytes) -> None:
    with (
        raw_receiver(lambda connection: connection.sendall(answer)) as port,
        pytest.raises(NoAnswer),
    ):
        Sender(10).post(Endpoint.of(f"http://hooks.invalid:{port}/"), LOCAL, b"news", {})
