"""Receivers of webhooks: real servers on this machine."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CERTIFICATE = Path(__file__).parent / "hooks.example.pem"
"""Of `hooks.example` alone, with its key, signed by itself."""


@dataclass
class Receiver:
    """What arrived, and what is answered next: statuses in turn, the last one for ever."""

    url: str = ""
    port: int = 0
    statuses: list[int] = field(default_factory=lambda: [204])
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay_s: float = 0.0
    received: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    def next_status(self) -> int:
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


@contextmanager
def receiver(*, tls: bool = False, **answers: Any) -> Iterator[Receiver]:
    """A receiver until the block ends; then it answers at once what it still has to."""
    known = Receiver(**answers)
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            lowered = {name.lower(): value for name, value in self.headers.items()}
            known.received.append((self.path, lowered, body))
            ended.wait(known.delay_s)
            self.send_response(known.next_status())
            for name, value in {"Content-Length": str(len(known.body)), **known.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(known.body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        # Many connect at once, and whoever finds no room is heard only after a second or more.
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    # A sender that hangs up while it is answered is no news.
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    known.port = server.server_address[1]
    known.url = f"http://127.0.0.1:{known.port}/hook?token=secret"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield known
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


@contextmanager
def raw_receiver(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """The port of a server that treats each connection as it likes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_treat, args=(connection, answer), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _treat(connection: socket.socket, answer: Callable[[socket.socket], None]) -> None:
    with connection:
        try:
            answer(connection)
        except OSError:
            return
