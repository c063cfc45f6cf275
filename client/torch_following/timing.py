"""How long each stage's operations take in an iteration, without stopping for it."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from client.torch_runner.schedule import Action

Key = tuple[int, str]
"""A stage, and F, I, W, B, O, R or the loss."""
MOST_PENDING = 3
"""Iterations that a device may be behind the host before one is left out."""


class Iteration:
    """What was noted of one iteration; times are per operation, in the order in which they ran."""

    def __init__(self, number: int, plan_version: int | None) -> None:
        self.number = number
        self.plan_version = plan_version
        self.taken_ns: dict[Key, list[int]] = defaultdict(list)
        self.span_ns: int | None = None


class Timer(Protocol):
    """Notes iterations. `timing` is what an executor encloses operations with."""

    def begin(self, number: int, plan_version: int | None) -> None:
        """An iteration begins."""

    def end(self) -> None:
        """It is over, as far as the host knows."""

    def timing(self, action: Action) -> Any:
        """Around one operation."""

    def finished(self) -> Iterator[Iteration]:
        """Those of which everything is known by now, each once."""


class ClockTimer:
    """By the host's clock, for CPUs."""

    def __init__(self) -> None:
        self._running: Iteration | None = None
        self._began_ns = 0
        self._finished: deque[Iteration] = deque(maxlen=2)

    def begin(self, number: int, plan_version: int | None) -> None:
        """An iteration begins."""
        self._running = Iteration(number, plan_version)
        self._began_ns = time.perf_counter_ns()

    def end(self) -> None:
        """It is over."""
        if self._running is not None:
            self._running.span_ns = time.perf_counter_ns() - self._began_ns
            self._finished.append(self._running)
            self._running = None

    @contextmanager
    def timing(self, action: Action) -> Iterator[None]:
        """Around one operation."""
        began_ns = time.perf_counter_ns()
        yield
        if self._running is not None:
            taken_ns = time.perf_counter_ns() - began_ns
            self._running.taken_ns[action.stage, action.kind].append(taken_ns)

    def finished(self) -> Iterator[Iteration]:
        """Those of which everything is known by now."""
        while self._finished:
            yield self._finished.popleft()


class EventTimer:
    """By events on the computing stream of a CUDA device, read once they have passed.

    O and R copy on streams of their own and are not noted. An iteration that the device has not
    finished when the host is through `MOST_PENDING` more is left out: the host never waits. No GPU
    has run this yet.
    """

    def __init__(self, event: Callable[[], Any] | None = None) -> None:
        self._event = event or (lambda: torch.cuda.Event(enable_timing=True))
        self._spare: list[Any] = []
        self._pending: deque[_Events] = deque()
        self._running: _Events | None = None

    def begin(self, number: int, plan_version: int | None) -> None:
        """An iteration begins."""
        self._running = _Events(Iteration(number, plan_version), self._recorded())

    def end(self) -> None:
        """It is over, as far as the host knows."""
        if self._running is None:
            return
        self._running.end = self._recorded()
        self._pending.append(self._running)
        self._running = None
        if len(self._pending) > MOST_PENDING:
            self._pending.popleft()

    @contextmanager
    def timing(self, action: Action) -> Iterator[None]:
        """Around one operation."""
        if self._running is None or action.kind in "OR":
            yield
            return
        begin = self._recorded()
        yield
        self._running.pairs.append((action, begin, self._recorded()))

    def finished(self) -> Iterator[Iteration]:
        """Those of which everything is known by now."""
        while self._pending and self._pending[0].end.query():
            yield self._read(self._pending.popleft())

    def _recorded(self) -> Any:
        event = self._spare.pop() if self._spare else self._event()
        event.record()
        return event

    def _read(self, events: _Events) -> Iteration:
        iteration = events.iteration
        for action, begin, end in events.pairs:
            iteration.taken_ns[action.stage, action.kind].append(_between_ns(begin, end))
            self._spare += begin, end
        iteration.span_ns = _between_ns(events.begin, events.end)
        self._spare += events.begin, events.end
        return iteration


class _Events:
    """The events of one iteration."""

    def __init__(self, iteration: Iteration, begin: Any) -> None:
        self.iteration = iteration
        self.begin, self.end = begin, begin
        self.pairs: list[tuple[Action, Any, Any]] = []


def _between_ns(begin: Any, end: Any) -> int:
    return round(float(begin.elapsed_time(end)) * 1e6)


def timer_for(device: torch.device) -> Timer:
    """The timer that fits a device."""
    return EventTimer() if device.type == "cuda" else ClockTimer()
