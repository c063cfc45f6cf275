"""The benchmark's tables say what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.report import cells, columns, flags, mean_gap, record_of, summary

MS = 1_000_000


def measurement(makespan_ms: int, bound_ms: int | None, **fields: Any) -> dict[str, Any]:
    return {
        "state": "succeeded",
        "seconds": 61.2,
        "ok": True,
        "makespan_ns": makespan_ms * MS,
        "lower_bound_ns": None if bound_ms is None else bound_ms * MS,
        "bound_name": None if bound_ms is None else "tail",
        "gap": None if bound_ms is None else 1 - bound_ms / makespan_ms,
        "proven_optimal": makespan_ms == bound_ms,
        "best_classic_ns": 130 * MS,
        "best_at_s": 12.34,
        "device_memory_share": 0.995,
        "solver_peak_bytes": 300 * 2**20,
        "found_by": "local search",
        **fields,
    }


INFEASIBLE = {"state": "infeasible", "seconds": 1.0, "ok": True, "devices": [1]}
FAILED = {"state": "failed", "seconds": 2.0, "ok": False, "error": "crashed"}


def row(name: str = "p", known_ms: int | None = 100, **engines: Any) -> dict[str, Any]:
    known = None if known_ms is None else known_ms * MS
    return {"name": name, "best_known_ns": known, "engines": engines}


@pytest.mark.parametrize(
    ("makespan_ms", "known_ms", "expected"),
    [
        (101, 100, []),
        (100, 100, ["≤ best known"]),
        (99, 100, ["< best known"]),
        (90, 100, ["< best known", "proven"]),
        (90, None, ["proven"]),
    ],
)
def test_flags(makespan_ms: int, known_ms: int | None, expected: list[str]) -> None:
    known = None if known_ms is None else known_ms * MS
    assert flags(measurement(makespan_ms, 90), known) == expected


def test_an_answer_without_a_schedule_has_no_flags() -> None:
    assert flags(INFEASIBLE, None) == []


def test_a_row_has_a_cell_for_every_column() -> None:
    for engines in (
        {"auto": measurement(99, 90)},
        {"auto": measurement(99, None), "cbc": INFEASIBLE},
        {"auto": FAILED, "cbc": measurement(99, 90, best_at_s=None, solver_peak_bytes=None)},
    ):
        assert len(cells(row(**engines))) == len(columns(tuple(engines)))


def test_a_row_shows_the_figures() -> None:
    assert cells(row(auto=measurement(99, 90))) == [
        "p", "100.00", "130.00",
        "99.00", "0.9900", "< best known", "90.00 (tail)", "9.09%", "12.3", "61.2", "99.5%",
        "300", "local search", "yes",
    ]  # fmt: skip
    assert cells(row(auto=FAILED))[-1] == "NO: crashed"


def test_engines_are_named_where_there_are_several() -> None:
    assert "makespan ms" in columns(["auto"])
    assert "auto: makespan ms" in columns(["auto", "cbc"])
    assert "cbc: makespan ms" in columns(["auto", "cbc"])


def test_mean_gap_is_to_the_best_bound_of_the_run() -> None:
    rows = [
        row("a", auto=measurement(100, 80), cbc=measurement(120, 90)),
        row("b", auto=measurement(100, 100), cbc=FAILED),
        row("c", auto=INFEASIBLE, cbc=INFEASIBLE),
    ]
    assert mean_gap(rows, "auto") == pytest.approx((0.1 + 0) / 2)
    assert mean_gap(rows, "cbc") == pytest.approx(0.25)
    assert mean_gap(rows[2:], "auto") is None


def test_the_summary_counts_each_flag() -> None:
    rows = [row("a", auto=measurement(99, 90)), row("b", auto=measurement(100, 100))]
    counted = summary([*rows, row("c", auto=FAILED)], ["auto"]).rows
    assert counted == [["auto", "3", "2", "2", "1", "1", f"{(9 / 99) / 2:.3%}"]]


def test_the_record_says_its_limit_and_what_a_later_run_is_compared_with() -> None:
    rows = [row("a", auto=measurement(99, 90)), row("b", auto=measurement(102, 102))]
    record = record_of(rows, ["auto"], 20.0, {})
    assert "a limit of 20 s" in record.note
    figures = {figure.name: figure.value for figure in record.figures}
    assert figures["problems proven, auto"] == 1
    assert figures["mean gap, auto"] == pytest.approx(100 * (9 / 99) / 2)
    assert figures["mean ratio to the best known, auto"] == pytest.approx((0.99 + 1.02) / 2)
