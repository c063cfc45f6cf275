"""The benchmark problems, for tests that compare with values known for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from planner.pipeline.documents import read_problem
from planner.pipeline.problem import PipelineProblem

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "problems"


def benchmark_document(name: str, **changes: Any) -> dict[str, Any]:
    """A problem as it is posted, with other values for some of its fields."""
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return document | changes


def benchmark_problem(name: str, **changes: Any) -> PipelineProblem:
    """The same as the planner's problem."""
    return read_problem(benchmark_document(name, **changes))


def best_known() -> dict[str, dict[str, Any]]:
    """What is known of each problem: `makespan_ns`, `bound_ns`, `proven`; or `infeasible`."""
    known: dict[str, dict[str, Any]] = json.loads((FOLDER / "best-known.json").read_text())
    return known
