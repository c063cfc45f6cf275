"""What following costs a trainer, in small."""

from __future__ import annotations

from benchmarks.run_callback import Case, measured, record_of

ROW = {
    "service": "away",
    "median_ns": 20_000,
    "p99_ns": 300_000,
    "largest_ns": 4_000_000,
    "plans_held": 0,
}


def test_the_plan_of_a_service_that_answers_arrives() -> None:
    # A second of iterations: the plan of a service beside it arrives within them.
    there = measured(Case("there"), iterations=500)
    away = measured(Case("away", is_there=False), iterations=20)
    assert there["plans_held"] == 1
    assert away["plans_held"] == 0
    for row in (there, away):
        assert 0 < row["median_ns"] <= row["p99_ns"] <= row["largest_ns"]


def test_the_table_is_in_microseconds_and_the_longest_call_is_no_figure() -> None:
    record = record_of([ROW], 5_000, {"machine": "one"})
    assert record.tables[0].rows == [["away", "20.0", "300.0", "4,000.0", "0"]]
    assert "5,000 iterations" in record.note
    assert [figure.value for figure in record.figures] == [20.0, 300.0]
