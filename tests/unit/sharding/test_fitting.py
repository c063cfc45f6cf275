"""Plans whose predicted peak has to fit, where more than one operator has to change for that."""

from __future__ import annotations

from typing import Any

import pytest

from planner.progress import SilentReporter, never
from planner.sharding.request import resolve_request
from planner.sharding.solve import run

LEAST_PEAK_BYTES = 337_920
"""Of all plans of the graph, by looking at each."""


def tensor(name: str, features: int) -> dict[str, Any]:
    return {"name": name, "shape": [32, features], "dtype": "bf16"}


def linear(name: str, source: str, target: str, features: tuple[int, int]) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "linear",
        "inputs": [source],
        "outputs": [tensor(target, features[1])],
        "parameters": [{"name": "weight", "shape": list(features)}],
    }


GRAPH = {
    "inputs": [tensor("x", 64)],
    "operators": [
        linear("up", "x", "h", (64, 512)),
        {"name": "drop", "kind": "dropout", "inputs": ["h"], "outputs": [tensor("e", 512)]},
        linear("down", "e", "y", (512, 64)),
        {"name": "sum", "kind": "add", "inputs": ["x", "y"], "outputs": [tensor("z", 64)]},
    ],
}


def solved(limit_bytes: int) -> dict[str, Any]:
    body = {"graph": GRAPH, "devices": 4, "device_memory_bytes": limit_bytes}
    return run(resolve_request(body).spec, SilentReporter(), never, None, 60.0)


@pytest.mark.parametrize(
    ("limit_bytes", "objective"), [(LEAST_PEAK_BYTES, 106_496), (338_944, 83_968)]
)
def test_the_best_plan_that_fits_is_found_among_few(limit_bytes: int, objective: int) -> None:
    answer = solved(limit_bytes)
    assert answer["state"] == "succeeded"
    assert answer["objective"] == objective
    assert answer["document"]["plan"]["predicted_peak_bytes"] <= limit_bytes


def test_where_none_fits_it_says_what_would() -> None:
    answer = solved(LEAST_PEAK_BYTES - 1)
    assert answer["state"] == "failed"
    assert answer["code"] == "no_plan_within_limit"
    assert f"the least found is {LEAST_PEAK_BYTES} bytes" in answer["detail"]
    assert "What would do: 8 devices; " in answer["detail"]
