"""The API's listening socket, opened by the supervisor and handed to the API process."""

from __future__ import annotations

import errno
import ipaddress
import socket

from embedded.errors import StartError


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen; port 0 takes a free one. Raises `StartError` where that fails."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as error:
        raise StartError(
            f"host {host!r} is unknown; give --host an address of this machine"
        ) from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit this; the API's event loop sees only a descriptor and
        # would leave small answers waiting for the client's acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
        listener.listen(512)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            message = (
                f"port {port} on {host} is already in use; "
                "stop what uses it or give --port another number (0 takes a free one)"
            )
        elif error.errno in (errno.EACCES, errno.EPERM):
            message = f"port {port} needs more rights; give --port a number above 1023"
        else:
            message = f"cannot listen on {host}: {error.strerror}; give another --host"
        raise StartError(message) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """The address under which this machine reaches the socket."""
    host, port = listener.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        host = "::1" if address.version == 6 else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can connect."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback
