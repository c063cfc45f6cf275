"""A process that posts telemetry for many runs: ``python -m benchmarks.telemetry.load``.

Reads one JSON object from stdin, see `Load`, and writes the figures of the steady rate and of the
burst to stdout.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import uvloop

from benchmarks.service.load import Asking, summary
from benchmarks.telemetry.bench import MICRO_BATCHES, PATIENCE_S, STAGES, TIME_NS

Figures = dict[str, Any]


@dataclass(frozen=True)
class Load:
    """Which runs to post for on which port: `posts` in all at this rate, then for `burst_s` as fast
    as they are answered."""

    port: int
    run_ids: tuple[str, ...]
    posts: int
    per_second: float
    burst_s: float


class _Run(Asking):
    """One run's connection: posts are sent in turn, each as soon as it is due and the one before
    it was answered."""

    def __init__(self, run_id: str, port: int) -> None:
        super().__init__()
        self.times_s: list[float] = []
        self.statuses: Counter[int] = Counter()
        self._head = f"POST /v1/runs/{run_id}/telemetry HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        self._random = random.Random(run_id)
        self._iteration = 0
        self._due: deque[float] = deque()
        self._is_busy = False
        self._burst_until = 0.0
        self.idle = asyncio.Event()

    def post(self) -> None:
        """A post is due now."""
        self._due.append(time.perf_counter())
        self.idle.clear()
        if not self._is_busy:
            self._send()

    def burst(self, seconds: float) -> None:
        """Post as fast as the answers come."""
        self._burst_until = time.perf_counter() + seconds
        self.post()

    def answered(self, status: int) -> None:
        now = time.perf_counter()
        self.times_s.append(now - self._due.popleft())
        self.statuses[status] += 1
        self._is_busy = False
        if now < self._burst_until:
            self._due.append(now)
        if self._due:
            self._send()
        else:
            self.idle.set()

    def _send(self) -> None:
        self._is_busy = True
        body = json.dumps(self._telemetry()).encode()
        self._iteration += 1
        fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self._transport.write((self._head + fields).encode() + body)

    def _telemetry(self) -> dict[str, Any]:
        def noisy() -> int:
            return round(TIME_NS * self._random.gauss(1, 0.01))

        stages = [
            {
                "stage": stage,
                "forward_ns": {"mean": noisy(), "median": noisy(), "p95": noisy()},
                "backward_input_ns": {"mean": noisy(), "median": noisy(), "p95": noisy()},
                "backward_weight_ns": noisy(),
                "peak_memory_bytes": 70_000_000_000,
                "gpu_utilisation": 0.9,
            }
            for stage in range(STAGES)
        ]
        span_ns = (STAGES + 3 * MICRO_BATCHES) * TIME_NS
        return {"iteration": self._iteration, "iteration_ns": span_ns, "stages": stages}


async def _measure(load: Load) -> Figures:
    loop = asyncio.get_running_loop()
    runs: list[_Run] = []
    for run_id in load.run_ids:
        _, run = await loop.create_connection(
            lambda run_id=run_id: _Run(run_id, load.port),  # type: ignore[misc]
            "127.0.0.1",
            load.port,
        )
        runs.append(run)
    began = time.perf_counter()
    for number in range(load.posts):
        due = began + number / load.per_second
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        runs[number % len(runs)].post()
    steady = await _settled(runs, began)
    began = time.perf_counter()
    for run in runs:
        run.burst(load.burst_s)
    return {"steady": steady, "burst": await _settled(runs, began)}


async def _settled(runs: Sequence[_Run], began: float) -> Figures:
    """The figures once everything was answered, and they begin anew."""
    async with asyncio.timeout(PATIENCE_S):
        for run in runs:
            await run.idle.wait()
    seconds = time.perf_counter() - began
    times_s = [own for run in runs for own in run.times_s]
    statuses = sum((run.statuses for run in runs), Counter[int]())
    for run in runs:
        run.times_s, run.statuses = [], Counter()
    return {
        **summary(times_s),
        "seconds": round(seconds, 1),
        "per_s": round(len(times_s) / seconds, 1),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
    }


if __name__ == "__main__":
    print(json.dumps(uvloop.run(_measure(Load(**json.load(sys.stdin))))))
