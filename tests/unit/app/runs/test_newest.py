"""Which iteration of a run is the newest, whatever single reports say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.services.runs.newest import FURTHEST_AHEAD, NEAR, Begun, begun, confirmed_newest

KEPT = 100


def alike(*iterations: int) -> dict[int, Sequence[int]]:
    """Three stages that have reported these."""
    return dict.fromkeys(range(3), iterations)


@pytest.mark.parametrize(
    ("by_stage", "expected"),
    [
        ({}, None),
        # One number alone may be wrong, except where hardly anything can come before it.
        (alike(0), Begun(0, 0, ())),
        (alike(NEAR), Begun(NEAR, NEAR, ())),
        (alike(NEAR + 1), None),
        (alike(0, 5_000_000), None),
        (alike(0, 1, 5_000_000), Begun(0, 1, (5_000_000,))),
        (alike(0, 5_000_000, 5_000_001), Begun(5_000_000, 5_000_001, (0,))),
        ({0: (5_000_000,), 1: (0, 1), 2: (0, 1)}, Begun(0, 1, (5_000_000,))),
        # Reports may be far apart, and two wrong ones may not be near each other.
        (alike(5_000, 5_050), Begun(5_000, 5_050, ())),
        (alike(0, 1, 50_000, 900_000), Begun(0, 1, (50_000, 900_000))),
        # Within reach it is ahead, as it would be had it come second.
        (alike(0, 6_000), Begun(0, 0, ())),
        (alike(0, FURTHEST_AHEAD + 1), None),
    ],
)
def test_a_run_begins_where_two_iterations_are(
    by_stage: dict[int, Sequence[int]], expected: Begun | None
) -> None:
    assert begun(by_stage, KEPT) == expected


@pytest.mark.parametrize(
    ("by_stage", "expected"),
    [
        (alike(49, 50), 50),
        (alike(49, 50, 90), 90),
        # Beyond the window once another report follows, even where all stages are there.
        (alike(49, 50, 6_000), 50),
        (alike(49, 50, 6_000, 6_001), 6_001),
        (alike(6_000), 50),
        (alike(0, 200, 400), 200),
        # As far as half of the stages have come.
        ({0: (50, 90), 1: (50, 90), 2: (50,), 3: (50,)}, 50),
        ({0: (50, 90), 1: (50, 90), 2: (50, 90), 3: (50,)}, 90),
        # One that reports alone is confirmed by its next report.
        ({0: (50, 90)}, 50),
        ({0: (50, 90, 91)}, 90),
    ],
)
def test_the_newest_iteration_is_one_that_others_confirm(
    by_stage: dict[int, Sequence[int]], expected: int
) -> None:
    assert confirmed_newest(50, by_stage, KEPT) == expected
