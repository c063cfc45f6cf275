"""How long timing and verification take, in small."""

from __future__ import annotations

from benchmarks.timing import Measured, measure, record_of


def test_a_schedule_is_timed_and_verified_so_many_times() -> None:
    measured = measure("balanced-4x8-1f1b-memory", repetitions=3)
    assert measured.is_valid
    assert measured.operations == 4 * 8 * 3
    assert set(measured.steps_s) == {"timing", "verification"}
    for taken_s in measured.steps_s.values():
        assert len(taken_s) == 3
        assert min(taken_s) > 0


def test_medians_are_compared_with_the_run_before() -> None:
    steps_s = {"timing": [0.010, 0.030, 0.020], "verification": [0.050, 0.040, 0.060]}
    record = record_of("p", Measured(96, steps_s, is_valid=True), {"machine": "one"})
    assert [[*row] for row in record.tables[0].rows] == [
        ["timing", "20", "10", "30", "3 runs"],
        ["verification", "50", "40", "60", "3 runs"],
    ]
    assert [(figure.name, figure.value) for figure in record.figures] == [
        ("timing", 20.0),
        ("verification", 50.0),
    ]
