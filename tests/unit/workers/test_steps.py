"""Steps of a solve become fewer as it goes on, and none is left out for good."""

from __future__ import annotations

from app.services.attempts import Progress
from workers.steps import Steps


def test_an_hour_of_steps_stays_below_the_limit() -> None:
    steps = Steps(0)
    noted = [ms for ms in range(0, 3_600_000, 800) if steps.is_due(Progress(ms, lower_bound=1))]
    assert noted[:50] == list(range(0, 40_000, 800))
    assert 1000 < len(noted) < 2000


def test_what_was_left_out_comes_with_the_next() -> None:
    steps = Steps(1_000_000)
    assert not steps.is_due(Progress(1_000_800, lower_bound=1))
    assert not steps.is_due(Progress(1_001_600))
    assert steps.is_due(Progress(1_010_000))
    assert not steps.is_due(Progress(1_020_000)), "there is nothing new"


def test_only_plans_bounds_and_phases_are_steps() -> None:
    assert not Steps(0).is_due(Progress(1000, log_lines=["a line"]))
    assert Steps(0).is_due(Progress(1000, phase="search"))
    assert Steps(0).is_due(Progress(1000, incumbent={}, objective=1))
