"""Waits for a job and shows how far it is: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from client.api import TERMINAL_STATES, LoadmasterClient
from client.errors import ServiceUnreachable
from client.figures import best_figure, bound_figure, percent

FIRST_POLL_S = 0.1
LONGEST_POLL_S = 1.0
PLAIN_LINE_EVERY_S = 10.0
LOST_SERVICE_AFTER_S = 30.0
WIDE_TERMINAL = 110
WIDE_BAR = 24
NARROW_BAR = 8
ELAPSED_WIDTH = len(" 0:00:00 ")


def wait_for(
    client: LoadmasterClient, job_id: str, console: Console, time_limit_s: float | None
) -> dict[str, Any]:
    """Poll until the job is over and return its last status.

    The bar fills over the solver's time limit, if it has one. A service that is silent for a while
    (it may be restarting) is asked again for 30 s before `ServiceUnreachable` gets through.
    """
    with _display(console, time_limit_s) as display:
        pause_s = FIRST_POLL_S
        silent_since: float | None = None
        while True:
            try:
                status = client.status(job_id)
                silent_since = None
            except ServiceUnreachable:
                now = time.monotonic()
                silent_since = silent_since or now
                if now - silent_since > LOST_SERVICE_AFTER_S:
                    raise
            else:
                display.show(status)
                if status["state"] in TERMINAL_STATES:
                    return status
            time.sleep(pause_s)
            pause_s = min(LONGEST_POLL_S, pause_s * 1.5)


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
        total_s, done_s = self._time_limit_s, 0.0
        if self._running_since is not None:
            done_s = time.monotonic() - self._running_since
        if status["state"] in TERMINAL_STATES:
            done_s = total_s = total_s or 1.0
        elif total_s is not None:
            done_s = min(done_s, 0.99 * total_s)
        self._progress.update(
            self._task,
            total=total_s,
            completed=done_s,
            description=describe(status, self._width),
        )


class _Lines:
    """A line whenever something changed, at most one per state and phase and ten seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._last = ""
        self._last_stage: tuple[Any, ...] = ()
        self._last_at = -PLAIN_LINE_EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        pass

    def show(self, status: Mapping[str, Any]) -> None:
        now = time.monotonic()
        elapsed = f"{now - self._started:5.1f} s  "
        line = describe(status, self._console.width - len(elapsed))
        stage = (status["state"], status.get("phase"))
        due = stage != self._last_stage or now - self._last_at >= PLAIN_LINE_EVERY_S
        if line == self._last or not due:
            return
        self._console.print(f"{elapsed}{line}", markup=False, soft_wrap=True)
        self._last, self._last_stage, self._last_at = line, stage, now
