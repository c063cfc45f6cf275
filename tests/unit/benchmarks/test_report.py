"""The benchmark's tables say what was measured."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.report import as_line, flags, header, mean_gap, summary

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
        line = as_line(row(**engines))
        assert line.count("|") == header(tuple(engines)).splitlines()[0].count("|")
        assert line.count("|") == header(tuple(engines)).splitlines()[1].count("|")


def test_a_row_shows_the_figures() -> None:
    cells = as_line(row(auto=measurement(99, 90))).strip("| ").split(" | ")
    assert cells == [
        "p", "100.00", "130.00",
        "99.00", "0.9900", "< best known", "90.00 (tail)", "9.09%", "12.3", "61.2", "99.5%",
        "300", "local search", "yes",
    ]  # fmt: skip
    assert as_line(row(auto=FAILED)).endswith("NO: crashed |")


def test_engines_are_named_where_there_are_several() -> None:
    assert "| makespan ms |" in header(["auto"])
    assert "| auto: makespan ms |" in header(["auto", "cbc"])
    assert "| cbc: makespan ms |" in header(["auto", "cbc"])


def test_mean_gap_is_to_the_best_bound_of_the_run() -> None:
    rows = [
        row("a", auto=measurement(100, 80), cbc=measurement(120, 90)),
        row("b", auto=measurement(100, 100), cbc=FAILED),
        row("c", auto=INFEASIBLE, cbc=INFEASIBLE),
    ]
    assert mean_gap(rows, "auto") == pytest.approx((0.1 + 0) / 2)
    assert mean_gap(rows, "cbc") == pytest.approx(0.25)
    assert mean_gap(rows[2:], "auto") is None


def test_the_mean_gaps_come_last() -> None:
    rows = [row("a", auto=measurement(99, 90)), row("b", auto=measurement(100, 100))]
    lines = summary(rows, ["auto"]).splitlines()
    assert lines[0] == "auto: schedules 2, at most the best known 2, below it 1, proven 1."
    assert lines[-1] == f"auto: mean gap to the best bound {(9 / 99) / 2:.3%}."
