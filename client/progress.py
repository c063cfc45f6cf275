"""Waits for a job and shows how far it is: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from client.figures import best_figure, bound_figure, percent
from client.library.requests import TERMINAL_STATES
from client.library.service import Service

PLAIN_LINE_EVERY_S = 10.0
TICK_S = 1.0
WIDE_TERMINAL = 110
WIDE_BAR = 24
NARROW_BAR = 8
ELAPSED_WIDTH = len(" 0:00:00 ")


def wait_for(
    client: Service, job_id: str, console: Console, time_limit_s: float | None
) -> dict[str, Any]:
    """Show a job as it changes until it is over, and return its last status.

    The bar fills over the solver's time limit, if it has one. A service that is silent for a while
    (it may be restarting) is asked again for 30 s before `ServiceUnreachable` gets through.
    """
    status: dict[str, Any] = {}
    with _display(console, time_limit_s) as display, _Ticker(display.tick):
        for status in client.follow(job_id):
            display.show(status)
    return status


def describe(status: Mapping[str, Any], width: int | None = None) -> str:
    """State or phase, best objective, bound and gap in one line.

    Where `width` is too small for that, the bound goes first (best and gap say it too), then what
    the phase has in brackets.
    """
    state = _state(status)
    best = _figure("best", best_figure(status))
    bound = _figure("bound", bound_figure(status))
    gap = "" if status.get("gap") is None else f"gap {percent(status['gap'], 2)}"
    versions = [
        [state, best, bound, gap],
        [state, best, gap],
        [state.partition(" (")[0], best, gap],
    ]
    lines = ["  ".join(part for part in version if part) for version in versions]
    return next((line for line in lines if width is None or len(line) <= width), lines[-1])


def _state(status: Mapping[str, Any]) -> str:
    state = str(status["state"])
    if state == "queued" and status.get("queue_position"):
        return f"queued (position {status['queue_position']})"
    if state == "running" and status.get("phase"):
        return str(status["phase"])
    return state


def _figure(name: str, figure: str | None) -> str:
    return "" if figure is None else f"{name} {figure}"


def _display(console: Console, time_limit_s: float | None) -> _Bar | _Lines:
    return _Bar(console, time_limit_s) if console.is_terminal else _Lines(console)


class _Ticker:
    """Calls something once a second: time goes on where a job says nothing new."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(TICK_S):
            self._tick()


class _Bar:
    """A bar that is redrawn in place; without a time limit it only moves to and fro."""

    def __init__(self, console: Console, time_limit_s: float | None) -> None:
        self._time_limit_s = time_limit_s
        self._running_since: float | None = None
        bar_width = WIDE_BAR if console.width >= WIDE_TERMINAL else NARROW_BAR
        self._width = console.width - bar_width - ELAPSED_WIDTH
        self._progress = Progress(
            BarColumn(bar_width=bar_width),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=console,
        )
        self._task = self._progress.add_task("", total=time_limit_s)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._progress.stop()

    def show(self, status: Mapping[str, Any]) -> None:
        if status["state"] == "running" and self._running_since is None:
            self._running_since = time.monotonic()
        self._progress.update(self._task, description=describe(status, self._width))
        if status["state"] in TERMINAL_STATES:
            self._running_since = None
            total_s = self._time_limit_s or 1.0
            self._progress.update(self._task, total=total_s, completed=total_s)
        self.tick()

    def tick(self) -> None:
        """Fill the bar up to now."""
        if self._running_since is None or self._time_limit_s is None:
            return
        done_s = min(time.monotonic() - self._running_since, 0.99 * self._time_limit_s)
        self._progress.update(self._task, completed=done_s)


class _Lines:
    """A line whenever something changed, at most one per state and phase and ten seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._last = ""
        self._last_stage: tuple[Any, ...] = ()
        self._last_at = -PLAIN_LINE_EVERY_S
        self._status: Mapping[str, Any] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        pass

    def show(self, status: Mapping[str, Any]) -> None:
        self._status = status
        self.tick()

    def tick(self) -> None:
        """Say what is new, if it is time to."""
        with self._lock:
            if self._status is not None:
                self._say(self._status)

    def _say(self, status: Mapping[str, Any]) -> None:
        now = time.monotonic()
        elapsed = f"{now - self._started:5.1f} s  "
        line = describe(status, self._console.width - len(elapsed))
        stage = (status["state"], status.get("phase"))
        due = stage != self._last_stage or now - self._last_at >= PLAIN_LINE_EVERY_S
        if line == self._last or not due:
            return
        self._console.print(f"{elapsed}{line}", markup=False, soft_wrap=True)
        self._last, self._last_stage, self._last_at = line, stage, now
