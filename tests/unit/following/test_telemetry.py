"""Telemetry is read into samples, or refused naming the field."""

from __future__ import annotations

from typing import Any

import pytest

from planner.errors import SpecError
from planner.following.telemetry import MOST_ITERATIONS, Sample, read_telemetry


def test_one_iteration_gives_a_sample_per_stage() -> None:
    body = {
        "iteration": 7,
        "iteration_ns": 5_000,
        "plan_version": 2,
        "stages": [
            {"stage": 1, "forward_ns": 10, "backward_memory_delta_bytes": -30},
            {"stage": 0, "forward_ns": 11, "link_busy_share": 0.5},
        ],
    }
    assert read_telemetry(body, 2) == [
        Sample(
            7,
            1,
            {
                "forward_ns": 10,
                "backward_memory_delta_bytes": -30,
                "iteration_ns": 5_000,
                "plan_version": 2,
            },
        ),
        Sample(
            7,
            0,
            {"forward_ns": 11, "link_busy_share": 0.5, "iteration_ns": 5_000, "plan_version": 2},
        ),
    ]


@pytest.mark.parametrize(
    ("statistics", "value"),
    [
        ({"mean": 3, "median": 2, "p95": 9}, 2),
        ({"mean": 3, "p95": 9}, 3),
        ({"p95": 9}, 9),
        ({"median": 0, "mean": 3}, 0),
    ],
)
def test_the_median_counts_else_the_mean_else_p95(statistics: dict[str, int], value: int) -> None:
    body = {"iteration": 0, "stages": [{"stage": 0, "forward_ns": statistics}]}
    assert read_telemetry(body, 1)[0].values == {"forward_ns": value}


def test_several_iterations_come_at_once() -> None:
    own = [{"iteration": i, "iteration_ns": 9, "stages": [{"stage": 0}]} for i in (4, 2)]
    assert [s.iteration for s in read_telemetry({"iterations": own}, 1)] == [4, 2]


@pytest.mark.parametrize(
    ("stages", "path"),
    [
        ([{"stage": 2}], ("stages", 0, "stage")),
        ([{"stage": 0, "forward_ns": 1}, {"stage": 0}], ("stages", 1, "stage")),
        ([{"stage": 0}], ("stages", 0)),
        ([{"stage": 0, "forward_ns": -1}], ("stages", 0, "forward_ns")),
        ([{"stage": 0, "forward_ns": {}}], ("stages", 0, "forward_ns")),
        ([{"stage": 0, "forward_ns": {"median": "3"}}], ("stages", 0, "forward_ns", "median")),
        ([{"stage": 0, "forward_ns": 0.5}], ("stages", 0, "forward_ns")),
        ([{"stage": 0, "forward_memory_delta_bytes": True}], None),
        ([{"stage": 0, "forward_memory_delta_bytes": float("inf")}], None),
        ([{"stage": 0, "link_busy_share": 1.1}], ("stages", 0, "link_busy_share")),
        ([{"stage": 0, "speed": 1}], ("stages", 0, "speed")),
        ([], ("stages",)),
    ],
)
def test_what_is_malformed_names_its_field(
    stages: list[dict[str, Any]], path: tuple[str | int, ...] | None
) -> None:
    with pytest.raises(SpecError) as caught:
        read_telemetry({"iteration": 0, "stages": stages}, 2)
    assert caught.value.path == (path or ("stages", 0, "forward_memory_delta_bytes"))
    assert caught.value.remedy


def test_in_a_batch_the_iteration_is_named_too() -> None:
    own = [{"iteration": 1, "stages": [{"stage": 0, "forward_ns": 1}]}] * 2
    with pytest.raises(SpecError) as caught:
        read_telemetry({"iterations": own}, 1)
    assert caught.value.path == ("iterations", 1, "stages", 0, "stage")


def test_a_batch_is_bounded() -> None:
    own = [{"iteration": i, "stages": [{"stage": 0}]} for i in range(MOST_ITERATIONS + 1)]
    with pytest.raises(SpecError):
        read_telemetry({"iterations": own}, 1)


def test_a_sample_survives_its_text() -> None:
    sample = Sample(3, 1, {"forward_ns": 10, "link_busy_share": 0.25})
    assert Sample.from_text(3, 1, sample.to_text()) == sample
