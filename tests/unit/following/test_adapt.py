"""Offload settings follow measured bandwidth."""

from __future__ import annotations

from math import sqrt

import pytest

from planner.following.adapt import COPY_START_S, adapted
from planner.following.estimates import Estimate
from tests.unit.following.runs import FORWARD_NS, problem


def measured(offload_ns: float, forward_ns: float | None = None) -> dict[tuple[int, str], Estimate]:
    own = {(1, "offload_ns"): Estimate(offload_ns, 0, 0, 20, 0, 0)}
    if forward_ns is not None:
        own[1, "forward_ns"] = Estimate(forward_ns, 0, 0, 20, 0, 0)
    return own


@pytest.mark.parametrize(
    ("offload_ns", "factor"), [(450_000, 0.7), (720_000, 0.8), (900_000, 1.0), (1_800_000, 1.0)]
)
def test_the_factor_is_measured_over_nominal_within_its_range(
    offload_ns: float, factor: float
) -> None:
    found = adapted(problem(offload=True), measured(offload_ns))
    assert [own.offload_time_factor for own in found.stages] == pytest.approx([factor])


def test_the_tolerance_is_one_offload_and_one_forward() -> None:
    base = problem(offload=True)
    assert adapted(base, measured(2e6)).backward_delay_tolerance_ns == 2_000_000 + FORWARD_NS
    found = adapted(base, measured(2e6, 5e5))
    assert found.backward_delay_tolerance_ns == 2_500_000
    assert found.solver() == {"backward_delay_tolerance_ms": 2.5}


def test_half_the_bandwidth_makes_smaller_chunks() -> None:
    base = problem(offload=True)
    full, half = (adapted(base, measured(t)).stages[0] for t in (9e5, 1.8e6))
    assert half.offload_bytes_per_s == full.offload_bytes_per_s / 2
    assert half.chunk_bytes <= full.chunk_bytes
    assert full.chunk_bytes <= max(60, 2 * sqrt(60 * full.offload_bytes_per_s * COPY_START_S))


def test_without_measured_copies_nothing_is_adapted() -> None:
    for base in (problem(), problem(offload=True)):
        found = adapted(base, {})
        assert found.to_document() == {"backward_delay_tolerance_ns": None, "stages": ()}
        assert found.solver() == {}
