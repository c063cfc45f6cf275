"""Drift is what noise does not explain, and large enough to matter."""

from __future__ import annotations

from random import Random

import pytest

from planner.following.drift import drifts, drifts_up_or_down, has_moved
from planner.following.estimates import Estimate, estimates_of, series_of
from planner.following.telemetry import Sample
from tests.unit.following.runs import FORWARD_NS, problem, samples, straggler


def found(own: list[Sample], anchor: dict[tuple[int, str], Estimate] | None = None) -> set[int]:
    series = series_of(own, lambda i: True)
    return {drift.stage for drift in drifts(problem(), anchor or {}, estimates_of(own), series)}


@pytest.mark.parametrize("seed", range(20))
def test_jitter_is_no_drift(seed: int) -> None:
    assert found(samples(range(60), jitter=0.05, seed=seed)) == set()


def test_a_straggler_is_named_with_its_shift() -> None:
    own = samples(range(52), straggler)
    moved = drifts(problem(), {}, estimates_of(own), series_of(own, lambda i: True))
    assert {(d.kind, d.stage) for d in moved} == {("stage_time_drift", 1)}
    assert all(d.shift == pytest.approx(0.3, abs=0.02) and d.since == 40 for d in moved)
    assert "stage 1 +" in str(moved[0])


def test_a_straggler_is_seen_within_ten_iterations() -> None:
    assert found(samples(range(50), straggler)) == {1}


def test_slow_drift_is_seen_against_the_old_profile() -> None:
    anchor = estimates_of(samples(range(60)))
    own = samples(range(100, 160), lambda i, s: 1 + (0.0005 * (i - 60) if s == 2 else 0))
    assert found(own, anchor) == {2}


def test_what_changes_by_less_than_a_swap_could_gain_is_no_drift() -> None:
    own = samples(range(60), lambda i, s: 1.006, jitter=0.0001)
    assert found(own) == set()


def test_a_change_has_to_exceed_the_noise_of_both() -> None:
    before, after = Estimate(100, 1.0, 5, 30, 0, 0), Estimate(104, 1.0, 5, 30, 0, 0)
    assert not has_moved(before, after)
    assert has_moved(before, Estimate(109, 1.0, 5, 30, 0, 0))


def test_cusum_adds_up_a_shift_that_single_samples_do_not_show() -> None:
    random = Random(3)
    before = Estimate(100, 0.0, 2, 50, 0, 0)
    still = [random.gauss(100, 2) for _ in range(100)]
    moved = [random.gauss(102, 2) for _ in range(100)]
    assert not drifts_up_or_down(still, before, 2)
    assert drifts_up_or_down(moved, before, 2)
    assert drifts_up_or_down([204 - value for value in moved], Estimate(104, 0, 2, 50, 0, 0), 2)


def test_memory_drifts_as_memory() -> None:
    own = samples(range(20), forward_memory_delta_bytes=110)
    moved = drifts(problem(), {}, estimates_of(own), series_of(own, lambda i: True))
    assert {d.kind for d in moved} == {"memory_drift"}
    assert {(d.before, d.after) for d in moved} == {(100, 110)}


def test_figures_that_no_plan_is_made_of_do_not_drift() -> None:
    own = samples(range(20), peak_memory_bytes=7, gpu_utilisation=0.5, offload_ns=FORWARD_NS)
    assert found(own) == set()
