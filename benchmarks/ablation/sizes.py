"""How large the MILP of a problem is, before and after what precedences and bounds settle."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planner.pipeline.documents import read_problem
from planner.pipeline.milp.formulation import BuildStopped
from planner.pipeline.milp.model import PipelineModel, anything, build_model

BUILD_S = 30.0
"""A model that takes longer to build is left out."""


@dataclass(frozen=True)
class Size:
    """Columns, 0/1 decisions among them, and rows of a model."""

    columns: int
    binaries: int
    rows: int


def milp_sizes(
    problem: Mapping[str, Any], best_ns: int, bound_ns: int
) -> tuple[Size | None, Size | None, Size | None]:
    """As the problem is stated; with the precedences that memory implies; and with those that a
    makespan of `best_ns` implies too. None where it takes too long to build."""
    read = read_problem(problem)

    def size(best_ns: int | None, bound_ns: int, *, by_memory: bool = True) -> Size | None:
        ends = time.monotonic() + BUILD_S
        try:
            model = build_model(
                read,
                best_ns=best_ns,
                lower_bound_ns=bound_ns,
                # In a window memory implies nothing; this one leaves all orders open.
                add_window=None if by_memory else lambda graph: anything,
                should_end=lambda: time.monotonic() > ends,
            )
        except BuildStopped:
            return None
        return _size(model)

    return size(None, 0, by_memory=False), size(None, 0), size(best_ns, bound_ns)


def _size(model: PipelineModel) -> Size:
    return Size(len(model.build.columns), model.build.binaries, model.build.rows)
