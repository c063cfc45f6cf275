"""Young's and Daly's intervals and the exact one, against limits and simulated failures."""

from __future__ import annotations

from math import exp, inf, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.estimates.checkpoints.intervals import best_s, daly_s, young_s
from tests.unit.estimates.checkpoints.daly import expected_s
from tests.unit.estimates.checkpoints.simulated import Simulated

costs = st.floats(1e-3, 1e4)
mtbfs = st.floats(10, 1e7)


def test_young_is_the_square_root() -> None:
    assert young_s(2, 100) == pytest.approx(20)


def test_daly_is_as_published() -> None:
    part = sqrt(60 / (2 * 3600))
    expected = sqrt(2 * 60 * 3600) * (1 + part / 3 + part**2 / 9) - 60
    assert daly_s(60, 3600) == pytest.approx(expected)
    assert daly_s(200, 100) == 100


@given(cost=costs, mtbf=mtbfs)
def test_no_interval_is_better_than_the_best(cost: float, mtbf: float) -> None:
    best = best_s(cost, mtbf)
    if cost / mtbf > 50:
        return

    def share(work: float) -> float:
        return work / expected_s(work, cost, mtbf, 0)

    for other in (0.5 * best, 0.9 * best, 1.1 * best, 2 * best, young_s(cost, mtbf)):
        assert share(best) >= share(other) * (1 - 1e-9)
    assert 0 < best < mtbf


@given(mtbf=mtbfs, part=st.floats(1e-6, 1e-3))
def test_all_agree_where_a_checkpoint_is_far_shorter_than_the_time_between_failures(
    mtbf: float, part: float
) -> None:
    cost, best = part * mtbf, best_s(part * mtbf, mtbf)
    assert daly_s(cost, mtbf) == pytest.approx(best, rel=1e-4)
    assert young_s(cost, mtbf) == pytest.approx(best, rel=sqrt(part))
    assert abs(daly_s(cost, mtbf) - best) <= abs(young_s(cost, mtbf) - best) + 1e-6 * best


def test_without_failures_only_writing_is_lost() -> None:
    assert expected_s(100, 10, 1e12, 50) == pytest.approx(110, rel=1e-6)


def test_for_free_one_checkpoints_all_the_time() -> None:
    assert best_s(0, 1000) == pytest.approx(0, abs=1e-4)


def test_a_time_is_that_of_the_complete_model() -> None:
    assert expected_s(900, 100, 1000, 300) == pytest.approx(1000 * exp(0.3) * (exp(1) - 1))


def test_nothing_gets_done_where_failures_come_all_the_time() -> None:
    assert expected_s(100, 10, 1e-3, 1) == inf
    assert 0 < best_s(1e6, 1e-3) <= 1e-3


@pytest.mark.parametrize(
    ("work", "cost", "restart"), [(1200, 60, 300), (300, 60, 300), (5000, 20, 1500)]
)
def test_simulated_failures_cost_as_much(work: float, cost: float, restart: float) -> None:
    simulated = Simulated(7200, 0.0, cost, cost, restart, restart)
    expected = work / expected_s(work, cost, 7200, restart)
    assert 1 - simulated.useful_share(work, 1, 40_000) == pytest.approx(1 - expected, rel=0.05)
