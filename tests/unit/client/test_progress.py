"""A line of progress fits its width."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from client import progress
from client.library import following
from client.library.service import Service
from client.progress import describe, wait_for
from tests.unit.client.fake_service import FakeService, job

STATUS = job(
    "running",
    phase="AdaOffload (interleaved_4)",
    best_makespan_ns=14_867_123_000,
    lower_bound_ns=12_449_839_000,
    gap=0.1626,
)
FULL = "AdaOffload (interleaved_4)  best 14867.123 ms  bound 12449.839 ms  gap 16.26 %"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (None, FULL),
        (78, FULL),
        (77, "AdaOffload (interleaved_4)  best 14867.123 ms  gap 16.26 %"),
        (57, "AdaOffload  best 14867.123 ms  gap 16.26 %"),
        (10, "AdaOffload  best 14867.123 ms  gap 16.26 %"),
    ],
)
def test_least_important_parts_go_first(width: int | None, line: str) -> None:
    assert describe(STATUS, width) == line


def test_plain_lines_fit_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "FIRST_POLL_S", 0.0)
    service = FakeService()
    service.on("GET", "/v1/jobs/j1", STATUS, {**STATUS, "state": "succeeded"})
    file = io.StringIO()
    with Service(transport=service.transport) as client:
        wait_for(client, "j1", Console(file=file, width=80), 60.0)
    first, last = file.getvalue().splitlines()
    assert first.endswith(" s  AdaOffload (interleaved_4)  best 14867.123 ms  gap 16.26 %")
    assert last.endswith(" s  succeeded  best 14867.123 ms  bound 12449.839 ms  gap 16.26 %")


@pytest.mark.parametrize("limit_s", [60.0, None])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_bar_cuts_no_number(width: int, limit_s: float | None) -> None:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    with progress._Bar(console, limit_s) as bar:
        bar.show(STATUS)
        bar.show({**STATUS, "state": "succeeded"})
    assert "best 14867.123 ms" in file.getvalue()
    assert "gap 16.26 %" in file.getvalue()


def test_a_training_plan_is_described_by_its_step_time() -> None:
    figures = {"best_step_time_ns": 4_741_983_000, "lower_bound_ns": 4_059_013_000, "gap": 0.144}
    status = job("running", phase="finalists", kind="training", **figures)
    assert describe(status) == "finalists  best 4741.983 ms  bound 4059.013 ms  gap 14.40 %"


def test_a_sharding_plan_is_described_in_bytes() -> None:
    figures = {"best_objective_bytes": 48 * 2**20, "lower_bound_bytes": 12_345, "gap": 0.5}
    status = job("running", phase="ILP", kind="sharding", **figures)
    assert describe(status) == "ILP  best 48.00 MiB  bound 12.06 KiB  gap 50.00 %"


def test_what_came_too_early_for_a_line_is_told_when_it_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stream says it once; nothing else may happen for a long time."""
    file = io.StringIO()
    lines = progress._Lines(Console(file=file, width=80))
    better = {**STATUS, "best_makespan_ns": 13_000_000_000}
    lines.show(STATUS)
    lines.show(better)
    assert "13000.000" not in file.getvalue()
    monkeypatch.setattr(progress, "PLAIN_LINE_EVERY_S", 0.0)
    lines.tick()
    lines.tick()
    assert file.getvalue().count("best 13000.000 ms") == 1


def test_a_bar_fills_while_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    with progress._Bar(Console(file=io.StringIO(), force_terminal=True), 60.0) as bar:
        bar.show(STATUS)
        now += 30
        bar.tick()
        assert bar._progress.tasks[0].completed == 30
        now += 300
        bar.tick()
        assert bar._progress.tasks[0].completed < 60
        bar.show({**STATUS, "state": "succeeded"})
        bar.tick()
        assert bar._progress.tasks[0].completed == 60


def test_a_ticker_ticks_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TICK_S", 0.001)
    ticked = threading.Event()
    ticker = progress._Ticker(ticked.set)
    with ticker:
        assert ticked.wait(20)
    assert not ticker._thread.is_alive()
