"""Where webhooks may go: checked when one is posted, and again each time before it is sent."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from pydantic import AnyHttpUrl, TypeAdapter, ValidationError

from app.errors import InvalidRequest
from app.schemas.webhooks import WebhookFields
from app.services.submission import WebhookTarget
from app.services.webhooks.addresses import Address, literal_address, may_be_reached
from app.settings import Settings

PORTS = (80, 443)
FIRST_UNPRIVILEGED_PORT = 1024
LONGEST_HOST = 253
_URL = TypeAdapter(AnyHttpUrl)
_LOOPBACK = ip_address("127.0.0.1")

Resolve = Callable[[str, int], Sequence[Address]]


class AddressRefused(Exception):
    """The address may not be sent to; the text says why."""


@dataclass(frozen=True)
class Endpoint:
    """The parts of an address as a browser would read it: odd spellings of hosts are resolved."""

    scheme: str
    host: str
    port: int
    path_and_query: str

    @classmethod
    def of(cls, url: str) -> Endpoint:
        """Read an address. Raises `AddressRefused`."""
        try:
            read = _URL.validate_python(url)
        except ValidationError as error:
            raise AddressRefused("is no http or https address") from error
        if read.username is not None or read.password is not None:
            raise AddressRefused("holds a user name or password")
        host, port = read.host or "", read.port or 0
        if not host or len(host) > LONGEST_HOST:
            raise AddressRefused("has no host that can be looked up")
        if port not in PORTS and port < FIRST_UNPRIVILEGED_PORT:
            raise AddressRefused(f"has the port {port}, and webhooks go to 80, 443 or from 1024 on")
        query = "" if read.query is None else f"?{read.query}"
        return cls(read.scheme, host, port, f"{read.path or '/'}{query}")

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole address."""
        return f"{self.origin}{self.path_and_query}"


def resolve(host: str, port: int) -> Sequence[Address]:
    """The addresses of a name. Raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in found))


class WebhookTargets:
    """The rules of one service."""

    def __init__(self, settings: Settings, resolve: Resolve = resolve) -> None:
        self._settings = settings
        self._resolve = resolve

    def accept(self, fields: WebhookFields | None) -> WebhookTarget | None:
        """The target of a webhook as it is posted. Raises `InvalidRequest`.

        A name is not looked up: what it leads to then may be something else than now.
        """
        if fields is None:
            return None
        if fields.secret is None and self._settings.webhook_secret is None:
            raise InvalidRequest.of(
                "webhook.secret",
                "is required, since this service has none of its own.",
                "Give a text of at least 16 characters that you keep to yourself.",
            )
        try:
            endpoint = Endpoint.of(fields.url)
            self._check_host(endpoint.host)
        except AddressRefused as error:
            raise InvalidRequest.of(
                "webhook.url", f"{error}.", "Give an https address that is publicly reachable."
            ) from error
        secret = None if fields.secret is None else fields.secret.get_secret_value()
        return WebhookTarget(endpoint.url, endpoint.origin, secret)

    def addresses_of(self, endpoint: Endpoint) -> Sequence[Address]:
        """What a connection may be made to now. Raises `AddressRefused`, or `OSError` for a name
        that is not known."""
        self._check_host(endpoint.host)
        literal = literal_address(endpoint.host)
        if literal is not None:
            return [literal]
        found = self._resolve(endpoint.host, endpoint.port)
        if not self._is_allowed_name(endpoint.host) and not all(map(self._may_be_reached, found)):
            raise AddressRefused("leads to an address that is not public")
        return found

    def _check_host(self, host: str) -> None:
        literal = literal_address(host)
        if literal is not None and not self._may_be_reached(literal):
            raise AddressRefused("is an address that is not public")
        if (
            _is_this_machine(host)
            and not self._is_allowed_name(host)
            and not self._may_be_reached(_LOOPBACK)
        ):
            raise AddressRefused("is this machine itself")

    def _may_be_reached(self, address: Address) -> bool:
        return may_be_reached(
            address,
            allow_private=self._settings.webhook_allow_private,
            allowed=self._settings.webhook_allowed_hosts,
        )

    def _is_allowed_name(self, host: str) -> bool:
        allowed = {entry.lower().rstrip(".") for entry in self._settings.webhook_allowed_hosts}
        return host.rstrip(".") in allowed


def _is_this_machine(host: str) -> bool:
    return host.rstrip(".").rpartition(".")[2] == "localhost"
