"""Chunk sizes against brute force and the units of their formulas."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.routes import Route
from planner.estimates.offload.chunking import (
    Chunking,
    best_chunk_bytes,
    best_chunking,
    chunking_of,
    source_chunk,
)

ROUTE = Route(bytes_per_s=25e9, latency_s=10e-6, memory_bytes_per_s=1e12)


@given(
    size=st.integers(1, 2_000),
    rate=st.floats(1e2, 1e7),
    latency_s=st.floats(1e-6, 1e-1),
)
def test_best_number_of_chunks_is_that_of_brute_force(
    size: int, rate: float, latency_s: float
) -> None:
    route = Route(rate, latency_s, 1e12)
    best = best_chunking(size, route)
    least = min(Chunking(size, chunks, route).lost_s for chunks in range(1, size + 1))
    assert best.lost_s == pytest.approx(least, rel=1e-12)


def test_both_losses_are_equal_at_the_optimum() -> None:
    """n T = c / B, so that 2 sqrt(A T / B) are lost."""
    size = 4_000_000_000
    best = best_chunking(size, ROUTE)
    assert best_chunk_bytes(size, ROUTE) == sqrt(4e9 * 25e9 * 10e-6)
    assert best.chunk_bytes == pytest.approx(best_chunk_bytes(size, ROUTE), rel=0.01)
    assert best.lost_s == pytest.approx(2 * sqrt(4e9 * 10e-6 / 25e9), rel=1e-3)


def test_what_is_lost_is_what_a_replay_loses() -> None:
    """The link moves chunks as they become ready, evenly while a stage computes; it is no faster
    than that, so it never waits for a chunk but the first."""
    size, chunks = 1_000_000_000, 50
    compute_s = size / ROUTE.bytes_per_s + chunks * ROUTE.latency_s
    free_s = 0.0
    for number in range(1, chunks + 1):
        ready_s = compute_s * number / chunks
        free_s = max(free_s, ready_s) + ROUTE.latency_s + size / chunks / ROUTE.bytes_per_s
    exposed_s = free_s - compute_s
    chunking = Chunking(size, chunks, ROUTE)
    assert exposed_s == pytest.approx(chunking.lost_s - (chunks - 1) * ROUTE.latency_s, rel=1e-6)
    assert chunking.link_s == pytest.approx(compute_s)


def test_little_goes_in_one_chunk() -> None:
    assert best_chunking(100_000, ROUTE).chunks == 1
    assert chunking_of(100_000, 10**9, ROUTE).chunks == 1
    assert chunking_of(100_000, 30_000, ROUTE).chunks == 4


def test_without_latency_chunks_may_be_as_small_as_can_be() -> None:
    assert best_chunking(1000, Route(1e6, 0.0, 1e12)).chunks == 1000


def test_the_published_formula_depends_on_the_unit_of_time() -> None:
    """The same link and the same latency, in seconds and in milliseconds."""
    in_s = source_chunk(25e9, 1.4e12, 10e-6, 0.5)
    in_ms = source_chunk(25e6, 1.4e9, 10e-3, 0.5)
    assert in_s is not None
    assert in_ms is not None
    assert in_s / in_ms == pytest.approx(sqrt(1000))
    assert source_chunk(25e9, 1.4e12, 10e-6, 1.0) is None
    # What is in bytes does not.
    slow = Route(25e6, 10e-3, 1e12)
    assert best_chunk_bytes(10**9, slow) == pytest.approx(best_chunk_bytes(10**9, ROUTE))
