"""Every estimate is there under its name, and needs none of the solvers."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from planner.errors import SpecError
from planner.estimates.registry import ESTIMATES, REQUESTS
from planner.estimates.request import EstimateRequest

BODY: dict[str, Any] = {
    "model": "Llama-3-8B",
    "cluster": "2x8xH100",
    "training": {"micro_batches": 8, "tensor_parallel": 4, "pipeline_parallel": 2},
}
NAMES = (
    "memory",
    "step-time",
    "recomputation",
    "scaling",
    "offload",
    "communication",
    "checkpoints",
)


def test_the_names_are_those_of_the_addresses() -> None:
    assert tuple(ESTIMATES) == tuple(REQUESTS) == NAMES
    assert all(issubclass(request, EstimateRequest) for request in REQUESTS.values())


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_says_what_it_rests_on_and_what_to_be_wary_of(name: str) -> None:
    answer = ESTIMATES[name](BODY)
    assert all(set(note) == {"what", "value", "basis"} for note in answer["assumptions"])
    assert all(isinstance(warning, str) for warning in answer["warnings"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"modle": "GPT-2"}, ("modle",)),
        ({"model": "GPT-99"}, ("model",)),
        ({"training": []}, ("training",)),
        ({"training": {"micro_batches": 8, "zero": 1}}, ("training", "zero")),
    ],
)
def test_each_names_the_field_at_fault(
    name: str, change: dict[str, Any], path: tuple[str, ...]
) -> None:
    with pytest.raises(SpecError) as caught:
        ESTIMATES[name]({**BODY, **change})
    assert caught.value.path == path


def test_no_estimate_loads_a_solver() -> None:
    code = (
        "import sys; from planner.estimates.registry import ESTIMATES; "
        f"[answer({BODY!r}) for answer in ESTIMATES.values()]; "
        "sys.exit(bool({'numpy', 'numba', 'ortools', 'mip'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
