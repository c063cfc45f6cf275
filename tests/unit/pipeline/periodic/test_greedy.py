"""The compiled list scheduler keeps every rule, whatever its policy, and its offloads make room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.kernel.tables import ops_at, tables_of
from planner.pipeline.periodic.greedy import SHARES, GreedyPolicy, greedy_starts
from planner.pipeline.periodic.long import direct_schedules
from planner.pipeline.periodic.one_chunk import one_chunk_of
from planner.pipeline.periodic.shorten import with_micro_batches
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify
from tests.problems import problems
from tests.referee import check


def scheduled(problem: PipelineProblem, policy: GreedyPolicy) -> Schedule | None:
    starts, complete = greedy_starts(one_chunk_of(problem), problem.micro_batches, policy)
    if not complete:
        return None
    flat = starts.reshape(-1)
    numbers = np.flatnonzero(flat >= 0)
    return schedule_from_ops(problem, ops_at(tables_of(problem), numbers, flat[numbers]))


@settings(max_examples=60, deadline=None)
@given(problems(max_chunks=1, memory="loose"), st.data())
def test_every_policy_keeps_the_rules(problem: PipelineProblem, data: st.DataObject) -> None:
    problem = with_micro_batches(problem, problem.micro_batches)
    assume(find_infeasibility(problem) is None)

    def per_stage(least: int, most: int) -> Any:
        size = len(problem.stages)
        values = data.draw(st.lists(st.integers(least, most), min_size=size, max_size=size))
        return np.array(values, dtype=np.int64)

    policy = GreedyPolicy(
        in_flight=per_stage(1, 5),
        pending=per_stage(1, 4),
        forward_delay_ns=per_stage(0, 8),
        weight_delay_ns=per_stage(0, 8),
        share=per_stage(0, SHARES),
        near=per_stage(0, 3),
        ahead=per_stage(0, 3),
    )
    schedule = scheduled(problem, policy)
    if schedule is not None:
        assert verify(problem, schedule) == []


def half_of_memory(devices_per_link: int, *, unequal: bool) -> PipelineProblem:
    """32 devices with half of 1F1B's memory; transfers take 2/3 of a shared link at most."""
    devices, size = 32, 1000
    factors = [100 + 7 * ((3 * s) % 5 - 2) * unequal for s in range(devices)]
    return read_problem(
        {
            "micro_batches": 128,
            "devices": [
                {
                    "activation_memory_bytes": devices // 2 * size,
                    "host_link": f"switch {d // devices_per_link}",
                }
                for d in range(devices)
            ],
            "stages": [
                {
                    "device": s,
                    "forward_ns": 10 * k,
                    "backward_input_ns": 11 * k,
                    "backward_weight_ns": 9 * k,
                    "activation_bytes": size,
                    "weight_grad_bytes": size // 2,
                    "offload_bytes": size * 4 // 5,
                    "offload_ns": 1000,
                    "reload_ns": 1000,
                }
                for s, k in enumerate(factors)
            ],
            "transfers": [{"forward_ns": 30, "backward_ns": 30}] * (devices - 1),
        }
    )


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("devices_per_link", [1, 2])
def test_half_of_the_memory_does_with_offloads(devices_per_link: int, unequal: bool) -> None:
    problem = half_of_memory(devices_per_link, unequal=unequal)
    bound_ns = lower_bounds(problem)[0].value_ns
    *_, schedule = direct_schedules(problem, lower_bound_ns=round(1.03 * bound_ns))
    assert schedule is not None
    assert schedule.offloads > 0
    violations, _ = check(problem_to_document(problem), schedule.to_document(None))
    assert violations == []
    assert schedule.makespan_ns <= 1.03 * bound_ns
