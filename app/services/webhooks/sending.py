"""One POST to a receiver that nobody knows: to the addresses that were checked and to no other,
within a time in all, without following anything that it answers."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import httpcore

from app.services.webhooks.addresses import Address
from app.services.webhooks.targets import Endpoint

CONNECT_TIMEOUT_S = 5.0
MOST_ADDRESSES = 4
MOST_BYTES_READ = 64 * 1024


class NoAnswer(Exception):
    """The receiver did not answer; the text says why."""


class Sender:
    """Sends to any receiver; the certificates of the system (or of `SSL_CERT_FILE`) count.

    Proxies that the environment names are not used: they would choose the address by themselves.
    """

    def __init__(self, timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        self._timeout_s = timeout_s
        self._tls = tls or ssl.create_default_context()

    def post(
        self,
        endpoint: Endpoint,
        addresses: Sequence[Address],
        body: bytes,
        headers: Mapping[str, str],
    ) -> int:
        """The status of the answer. Raises `NoAnswer`."""
        network = _PinnedNetwork(addresses, time.monotonic() + self._timeout_s)
        try:
            with (
                httpcore.ConnectionPool(
                    ssl_context=self._tls, max_connections=1, network_backend=network
                ) as pool,
                pool.stream(
                    "POST",
                    httpcore.URL(
                        scheme=endpoint.scheme,
                        host=endpoint.host,
                        port=endpoint.port,
                        target=endpoint.path_and_query,
                    ),
                    headers=_headers(endpoint, body, headers),
                    content=body,
                    extensions={"sni_hostname": endpoint.host.strip("[].")},
                ) as response,
            ):
                _drain(response)
                return response.status
        except httpcore.ConnectTimeout as error:
            raise NoAnswer(f"no connection within {CONNECT_TIMEOUT_S:g} s") from error
        except httpcore.TimeoutException as error:
            raise NoAnswer(f"no answer within {self._timeout_s:g} s") from error
        except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError) as error:
            raise NoAnswer(_reason(error)) from error


class _PinnedNetwork(httpcore.NetworkBackend):
    """Connects to these addresses whatever name is asked for; TLS and `Host` keep the name."""

    def __init__(self, addresses: Sequence[Address], deadline: float) -> None:
        self._addresses = addresses[:MOST_ADDRESSES]
        self._deadline = deadline
        self._tcp = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        give_up = min(self._deadline, time.monotonic() + CONNECT_TIMEOUT_S)
        failure: Exception = httpcore.ConnectError("the name has no address")
        for address in self._addresses:
            try:
                stream = self._tcp.connect_tcp(
                    str(address), port, _left(give_up), local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _StreamUntil(stream, self._deadline)
        raise failure


class _StreamUntil(httpcore.NetworkStream):
    """A stream whose reads and writes all end by one moment, however slowly bytes trickle."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        secured = self._stream.start_tls(ssl_context, server_hostname, _left(self._deadline))
        return _StreamUntil(secured, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the time is up")
    return left


def _headers(endpoint: Endpoint, body: bytes, headers: Mapping[str, str]) -> list[tuple[str, str]]:
    usual = 443 if endpoint.scheme == "https" else 80
    host = endpoint.host if endpoint.port == usual else f"{endpoint.host}:{endpoint.port}"
    return [("Host", host), ("Content-Length", str(len(body))), *headers.items()]


def _drain(response: httpcore.Response) -> None:
    """Read a little of the answer, so that a receiver that writes one is not cut off."""
    read = 0
    for chunk in response.iter_stream():
        read += len(chunk)
        if read > MOST_BYTES_READ:
            return


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error.__context__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate is not valid: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError):
        return f"no TLS connection: {cause.reason}"
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused"
    if isinstance(error, httpcore.ConnectError):
        return "no connection"
    return "the connection ended without an answer in HTTP"
