"""The terminal shows how an answer came about."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from client.steps import LEAST_IMPORTANT, start_line, step_table
from tests.unit.client.results import two_device_result
from tests.unit.client.screen import line_with, shown


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"kind": "same_problem", "job_id": "j7", "distance": 0.0}, "this problem (job j7)"),
        ({"kind": "other_limit", "job_id": "j7", "distance": 0.1}, "another limit (job j7)"),
        ({"kind": "nearest_profile", "job_id": "j7", "distance": 0.0123}, "job j7, 0.0123 away"),
        ({"kind": "earlier_attempt"}, "an earlier attempt"),
    ],
)
def test_where_the_answer_started_is_said(start: dict[str, Any], words: str) -> None:
    result = two_device_result()
    assert "tarted from" not in shown(result)
    result["provenance"]["started_from"] = start
    assert words in shown(result)


@pytest.mark.parametrize("start", [None, "stored schedule", {"kind": "unheard of"}])
def test_a_start_without_words_is_left_out(start: Any) -> None:
    assert start_line({"started_from": start}) is None


def test_value_of_the_start_is_said_where_it_is_known() -> None:
    start = {"kind": "same_problem", "job_id": "j7", "objective_ns": 70_500_000}
    line = start_line({"started_from": start})
    assert line == "Started from the best plan known of this problem (job j7, 70.500 ms here)."


def provenance() -> dict[str, Any]:
    """What an answer says about its steps."""

    def step(name: str, until_s: float, reached_ms: int | None, best_ms: int) -> dict[str, Any]:
        return {
            "step": name,
            "began_s": 0.0,
            "ended_s": until_s,
            "reached_ns": None if reached_ms is None else reached_ms * 1_000_000,
            "best_ns": best_ms * 1_000_000,
            "lower_bound_ns": 60_000_000,
        }

    return {
        "placement": "as_posted",
        "found_by": "local search",
        "stopped_by": "time limit",
        "solve_seconds": 59.512,
        "steps": [{"seconds": 0.1}, {"seconds": 12.345}],
        "ablation": [
            step("classic schedules", 0.2, 70, 70),
            step("AdaOffload", 1.25, 72, 70),
            step("local search", 44.0, 65, 65),
            step("cp_sat", 59.0, None, 65),
        ],
    }


def test_what_found_the_plan_and_when_is_said() -> None:
    result = {**two_device_result(), "provenance": provenance()}
    assert "Found by local search after 12.3 s; ended after 59.5 s: time limit." in shown(result)
    assert "Found by" not in shown(two_device_result())


def test_each_step_is_shown_with_what_it_reached() -> None:
    output = shown({**two_device_result(), "provenance": provenance()})
    assert line_with("AdaOffload", output).split() == [
        "AdaOffload",
        "1.2",
        "72.000",
        "70.000",
        "60.000",
    ]
    assert line_with("cp_sat", output).split() == ["cp_sat", "59.0", "–", "65.000", "60.000"]
    assert "Reached ms" not in shown(two_device_result())


@pytest.mark.parametrize(("width", "dropped"), [(57, 0), (56, 1), (47, 1), (46, 2), (20, 2)])
def test_narrow_terminal_drops_columns_of_the_steps(width: int, dropped: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    table = step_table(provenance(), width)
    assert table is not None
    console.print(table, crop=False)
    assert isinstance(console.file, io.StringIO)
    output = console.file.getvalue()
    present = [heading in output for heading in LEAST_IMPORTANT]
    assert present == [False] * dropped + [True] * (2 - dropped)
    for words in ("classic schedules", "72.000", "70.000", "Reached ms"):
        assert words in output
