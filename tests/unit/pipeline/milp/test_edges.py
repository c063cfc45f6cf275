"""Rules that are easily made too strict: a steady span off the grid, and W with gaps."""

from __future__ import annotations

import pytest

from planner.pipeline.documents import read_problem
from planner.pipeline.feasibility.decide import sequential_schedule
from planner.pipeline.milp.graph import PrecedenceGraph
from planner.pipeline.milp.improve import improve
from planner.pipeline.objective import objective_ns
from planner.pipeline.schedule import Token
from planner.pipeline.verify import verify
from tests.unit.pipeline.milp.solving import Engine, Remembering, never, settings


@pytest.mark.parametrize("engine", ["cbc", "highs"])
def test_a_steady_span_off_the_grid_of_all_times_is_found(engine: Engine) -> None:
    """All times are even, and the best span is 79 ns (see the test of the bounds)."""
    problem = read_problem(
        {
            "micro_batches": 2,
            "objective": "steady_span",
            "devices": [{}, {"epilogue_ns": 56}],
            "stages": [
                {"device": 0, "forward_ns": [2, 20], "backward_input_ns": [30, 2]},
                {"device": 1, "forward_ns": 2, "backward_input_ns": 2},
            ],
            "transfers": [{"forward_ns": 20, "backward_ns": 20}],
        }
    )
    start = sequential_schedule(problem)
    outcome = improve(problem, start, settings(engine), Remembering(), never)
    best = outcome.schedule or start
    assert verify(problem, best) == []
    assert objective_ns(problem, best) <= 79
    assert outcome.lower_bound_ns is not None
    assert outcome.lower_bound_ns <= 79


def test_weights_on_both_sides_of_a_fused_backward_are_free() -> None:
    problem = read_problem(
        {
            "micro_batches": 3,
            "devices": [{}],
            "stages": [
                {
                    "device": 0,
                    "forward_ns": 1,
                    "backward_input_ns": 1,
                    "backward_weight_ns": [1, 0, 1],
                }
            ],
        }
    )
    graph = PrecedenceGraph(problem, None)
    first, last = graph.index[Token("W", 0, 0)], graph.index[Token("W", 0, 2)]
    assert last not in graph.successors[first]
