"""A process that asks one server the same over and over: ``python -m benchmarks.service.load``.

Reads one JSON object from stdin, see `Load`, and writes one to stdout, see `summary`. Keep-alive
connections of a bare protocol on uvloop, so that asking costs little beside answering.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import uvloop

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"
WARM_UP_S = 0.5
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Load:
    """Which request (its text), to which process and port, on how many connections at once."""

    pid: int
    port: int
    request: str
    concurrency: int
    seconds: float


class Asking(asyncio.Protocol):
    """A keep-alive connection on which one request at a time is under way."""

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(HEAD_END)
        if not separator or len(body) < _length(head):
            return
        self._buffer = b""
        self.answered(int(head[9:12]))

    def answered(self, status: int) -> None:
        """The request is answered as a whole, with this status."""
        raise NotImplementedError


class _Connection(Asking):
    """Sends the request again as soon as it is answered, until `seconds` have passed."""

    def __init__(self, request: bytes, seconds: float) -> None:
        super().__init__()
        self.times_s: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._ends = time.perf_counter() + seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._send()

    def answered(self, status: int) -> None:
        now = time.perf_counter()
        self.times_s.append(now - self._sent)
        self.statuses[status] += 1
        if now < self._ends:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if error is None:
            self.over.set_result(None)
        else:
            self.over.set_exception(error)

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(self._request)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(LENGTH):
            return int(line[len(LENGTH) :])
    raise ValueError("an answer without a length")


async def _ask(load: Load, seconds: float) -> list[_Connection]:
    loop = asyncio.get_running_loop()
    connections = []
    for _ in range(load.concurrency):
        _, connection = await loop.create_connection(
            lambda: _Connection(load.request.encode(), seconds), "127.0.0.1", load.port
        )
        connections.append(connection)
    await asyncio.gather(*(connection.over for connection in connections))
    return connections


async def _measure(load: Load) -> dict[str, Any]:
    warm_up = await _ask(load, WARM_UP_S)
    connections = await _ask(load, load.seconds)
    times_s = [seconds for connection in connections for seconds in connection.times_s]
    statuses = sum((connection.statuses for connection in connections), Counter[int]())
    return {
        **summary(times_s),
        "warm_up": sum(len(connection.times_s) for connection in warm_up),
        "per_s": round(len(times_s) / load.seconds, 1),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
    }


def summary(times_s: Sequence[float]) -> dict[str, Any]:
    """Number and percentiles, in milliseconds."""
    ordered = sorted(times_s)

    def at(share: float) -> float:
        return round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    percentiles = {f"p{percent}_ms": at(percent / 100) for percent in (50, 95, 99)}
    return {"count": len(ordered), **percentiles, "max_ms": round(1000 * ordered[-1], 3)}


def measure(load: Load) -> dict[str, Any]:
    """What a process of its own measures, and what the server takes of a core per answer."""
    before_s = cpu_s(load.pid)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.service.load"],
        input=json.dumps(asdict(load)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=load.seconds + PATIENCE_S,
    )
    measured: dict[str, Any] = json.loads(done.stdout)
    answers = measured.pop("warm_up") + measured["count"]
    return {**measured, "cpu_ms": round(1000 * (cpu_s(load.pid) - before_s) / answers, 3)}


def cpu_s(pid: int) -> float:
    """Seconds of cores that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print(json.dumps(uvloop.run(_measure(Load(**json.load(sys.stdin))))))
