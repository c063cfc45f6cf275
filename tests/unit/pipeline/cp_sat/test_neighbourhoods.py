"""Neighbourhoods: never worse, always valid, and the incumbent always fits into its window."""

from __future__ import annotations

from tests.unit.pipeline.cp_sat.apart import run_apart


def test_the_best_of_a_window_is_valid_and_no_worse() -> None:
    kinds, improved = run_apart("check_windows", range(60))
    assert kinds == {"time", "devices", "band", "mixture"}
    assert improved > 15


def test_neighbourhoods_alone_improve_a_start_and_claim_no_bound() -> None:
    run_apart("check_neighbourhoods_alone")
