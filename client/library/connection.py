"""How a service is reached: its address, the key, and the header fields of every request."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from client.errors import InputError
from client.library.requests import DEFAULT_SERVER, Call

TIMEOUT_S = 30.0
STREAM_SILENCE_S = 25.0
"""A stream of events says something at least every 15 s; one that does not is lost."""


@dataclass(frozen=True)
class Connection:
    """A service's address and what every request to it carries. Raises `InputError`."""

    server: str
    headers: Mapping[str, str]
    timeout_s: float

    @classmethod
    def to(cls, server: str, api_key: str | None, timeout_s: float) -> Connection:
        """Checked, so that nothing is sent to where it cannot arrive."""
        if not server.startswith(("http://", "https://")):
            raise InputError("server", f"cannot be {server!r}.", "Write http://HOST:PORT.")
        headers = {"User-Agent": "loadmaster-client", "Accept": "application/json"}
        if api_key is not None:
            if not (api_key.isascii() and api_key.isprintable()) or api_key.split() != [api_key]:
                raise InputError("API key", "is none.", "Give the one line that was printed.")
            headers["Authorization"] = f"Bearer {api_key}"
        return cls(server.rstrip("/"), headers, timeout_s)

    def timeout_of(self, call: Call) -> httpx.Timeout:
        """A service that was asked to wait may do so."""
        return httpx.Timeout(self.timeout_s, read=self.timeout_s + call.longest_wait_s)

    @property
    def stream_timeout(self) -> httpx.Timeout:
        """Of a stream of events."""
        return httpx.Timeout(self.timeout_s, read=STREAM_SILENCE_S)


def server_from(environment: Mapping[str, str] = os.environ) -> str:
    """The address in LOADMASTER_SERVER, or that of a service on this machine."""
    return environment.get("LOADMASTER_SERVER") or DEFAULT_SERVER


def api_key_for(server: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """The key in LOADMASTER_API_KEY, for the server of LOADMASTER_SERVER and nobody else."""
    if server.rstrip("/") != server_from(environment).rstrip("/"):
        return None
    return environment.get("LOADMASTER_API_KEY") or None
