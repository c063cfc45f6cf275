"""What is noted of each operation: how long it takes, and how memory changes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from client.torch_profile.live_bytes import Meter
from client.torch_profile.measured import Levels
from client.torch_profile.passes import Boundary

OpOfStage = tuple[str, int]
"""F, B or W, and the stage. B is I where the backward is split."""


class MemoryObserver:
    """Notes the levels of each operation, and what lies at each stage's borders in the end."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.levels: dict[OpOfStage, Levels] = {}
        self.border_bytes: dict[int, int] = {}

    def __call__(self, op: str, stage: int, boundary: Boundary, run: Callable[[], Any]) -> Any:
        """Run the operation between two readings."""
        meter = self._meter
        meter.mark()
        border_before = meter.bytes_of(boundary.tensors)
        before = meter.live_bytes - border_before
        result = run()
        border_after = meter.bytes_of(boundary.tensors)
        after = meter.live_bytes - border_after
        # What F sends counts as its buffer, which is there before. A gradient to be sent back may
        # be copied into its buffer only later, so B takes its bytes in passing.
        border = border_after if op == "F" else border_before
        peak = max(before, after, meter.peak_bytes - border)
        self.border_bytes[stage] = border_after
        self.levels[op, stage] = Levels(before, after, peak)
        return result


class ClockObserver:
    """Notes how long each operation takes on the CPU, in ns, once per pass."""

    def __init__(self) -> None:
        self._taken_ns: dict[OpOfStage, list[int]] = defaultdict(list)

    def __call__(self, op: str, stage: int, boundary: Boundary, run: Callable[[], Any]) -> Any:
        """Run the operation against the clock."""
        begin = time.perf_counter_ns()
        result = run()
        self._taken_ns[op, stage].append(time.perf_counter_ns() - begin)
        return result

    def taken_ns(self) -> dict[OpOfStage, list[int]]:
        """What was noted, in the order of the passes."""
        return dict(self._taken_ns)


class EventObserver:
    """Notes how long each operation takes on a CUDA device, by events on its stream.

    No GPU has run this yet.
    """

    def __init__(self) -> None:
        self._events: dict[OpOfStage, list[tuple[Any, Any]]] = defaultdict(list)

    def __call__(self, op: str, stage: int, boundary: Boundary, run: Callable[[], Any]) -> Any:
        """Run the operation between two events; the host doesn't wait for them."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        result = run()
        end.record()
        self._events[op, stage].append((begin, end))
        return result

    def taken_ns(self) -> dict[OpOfStage, list[int]]:
        """What was noted, in the order of the passes, once all work is done."""
        torch.cuda.synchronize()
        return {
            key: [round(float(begin.elapsed_time(end)) * 1e6) for begin, end in pairs]
            for key, pairs in self._events.items()
        }


def run_only(op: str, stage: int, boundary: Boundary, run: Callable[[], Any]) -> Any:
    """Notes nothing: for the passes that warm up."""
    return run()
