"""Two levels of checkpoints, against one level, simulated failures and every plan there is."""

from __future__ import annotations

from dataclasses import asdict, replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.estimates.checkpoints.intervals import best_s
from planner.estimates.checkpoints.two_levels import (
    Levels,
    best_levels,
    cycle_s,
    golden_maximum,
    useful_share,
)
from tests.unit.estimates.checkpoints.daly import expected_s
from tests.unit.estimates.checkpoints.simulated import Simulated

LEVELS = Levels(
    mtbf_s=10_800,
    fast_cost_s=5,
    full_cost_s=120,
    fast_restart_s=400,
    full_restart_s=900,
    fast_share=0.7,
)
any_levels = st.builds(
    Levels,
    mtbf_s=st.floats(1e3, 1e6),
    fast_cost_s=st.floats(0.1, 100),
    full_cost_s=st.floats(1, 500),
    fast_restart_s=st.floats(0, 500),
    full_restart_s=st.floats(0, 2000),
    fast_share=st.floats(0.0, 0.99),
)


@pytest.mark.parametrize(("work", "segments"), [(300, 12), (400, 7), (2000, 3), (1500, 1)])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_simulated_failures_cost_as_much(work: float, segments: int, share: float) -> None:
    levels = replace(LEVELS, fast_share=share)
    simulated = Simulated(**asdict(levels))
    expected = useful_share(levels, work, segments)
    found = simulated.useful_share(work, segments, 100_000 // segments)
    assert 1 - found == pytest.approx(1 - expected, rel=0.05)


def test_what_is_written_in_the_background_is_there_later() -> None:
    """A failure before that repeats the work in between once more."""
    simulated = Simulated(**asdict(replace(LEVELS, fast_share=0.0)), full_lag_s=600)
    expected = useful_share(
        replace(LEVELS, fast_share=0.0, full_restart_s=LEVELS.full_restart_s + 600), 1500, 1
    )
    without = useful_share(replace(LEVELS, fast_share=0.0), 1500, 1)
    found = simulated.useful_share(1500, 1, 40_000)
    assert 1 - found == pytest.approx(1 - expected, rel=0.05)
    assert abs(found - expected) < abs(found - without)


@given(levels=any_levels, work=st.floats(1, 5_000))
def test_full_checkpoints_alone_are_one_level(levels: Levels, work: float) -> None:
    alone = replace(levels, fast_share=0.0)
    expected = expected_s(work, levels.full_cost_s, levels.mtbf_s, levels.full_restart_s)
    assert cycle_s(alone, work, 1) == pytest.approx(expected)


@given(levels=any_levels, work=st.floats(10, 2_000), segments=st.integers(1, 50))
def test_more_failures_longer_restarts_and_dearer_checkpoints_cost_time(
    levels: Levels, work: float, segments: int
) -> None:
    time = cycle_s(levels, work, segments)
    assert time >= segments * work + (segments - 1) * levels.fast_cost_s + levels.full_cost_s
    slack = 1 + 1e-9
    for worse in (
        replace(levels, mtbf_s=levels.mtbf_s / 2),
        replace(levels, fast_cost_s=levels.fast_cost_s + 1),
        replace(levels, full_cost_s=levels.full_cost_s + 1),
        replace(levels, fast_restart_s=levels.fast_restart_s + 10),
        replace(levels, full_restart_s=levels.full_restart_s + 10),
    ):
        assert cycle_s(worse, work, segments) * slack >= time


def test_without_failures_only_writing_is_lost() -> None:
    calm = replace(LEVELS, mtbf_s=1e12)
    assert cycle_s(calm, 300, 12) == pytest.approx(12 * 300 + 11 * 5 + 120)


def test_a_cycle_that_cannot_end_takes_for_ever() -> None:
    assert cycle_s(replace(LEVELS, mtbf_s=0.1), 300, 12) == inf
    assert cycle_s(replace(LEVELS, mtbf_s=1, full_restart_s=0, fast_restart_s=0), 800, 2) == inf
    assert useful_share(replace(LEVELS, mtbf_s=0.1), 300, 12) == 0


@settings(max_examples=25, deadline=None)
@given(levels=any_levels)
def test_no_plan_is_better_than_the_best(levels: Levels) -> None:
    work, segments = best_levels(levels, 1.0)
    best = useful_share(levels, work, segments)
    others = max(
        useful_share(levels, 1.25**step, number)
        for step in range(2, 50)
        for number in (*range(1, 30), 40, 60, 100, 200, 400)
    )
    assert best >= others * (1 - 1e-6)


def test_fast_checkpoints_that_save_nothing_are_not_written() -> None:
    work, segments = best_levels(replace(LEVELS, fast_share=0.0), 1.0)
    assert segments == 1
    assert work == pytest.approx(best_s(120, 10_800), rel=1e-4)


def test_the_least_work_is_kept() -> None:
    work, _ = best_levels(LEVELS, 2_000.0)
    assert work == pytest.approx(2_000, rel=1e-6)


def test_a_maximum_is_found_inside_and_at_the_edge() -> None:
    assert golden_maximum(lambda x: -((x - 2) ** 2), 0, 5) == pytest.approx(2, abs=1e-6)
    assert golden_maximum(lambda x: -x, 1, 5) == pytest.approx(1)
