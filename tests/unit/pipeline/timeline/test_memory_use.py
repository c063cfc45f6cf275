"""Memory over time: the verifier's peaks, the replay's bytes."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.pipeline.effects import MemoryKey, memory_effects
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.timeline.memory_use import MemoryUse, device_memories, host_memories
from tests.problems import problems
from tests.random_schedules import random_schedule


@settings(max_examples=150, deadline=None)
@given(problem=problems(), seed=st.integers(0, 2**32 - 1))
def test_steps_are_those_of_the_operations(problem: PipelineProblem, seed: int) -> None:
    assume(find_infeasibility(problem) is None)
    schedule = random_schedule(problem, Random(seed))
    devices = device_memories(problem, schedule.ops, 0)
    hosts = host_memories(problem, schedule.ops, 0)
    assert tuple(use.peak_bytes for use in devices) == schedule.peak_memory_bytes
    assert tuple(use.peak_bytes for use in hosts) == schedule.host_peak_memory_bytes
    uses: dict[MemoryKey, MemoryUse] = {("device", d): use for d, use in enumerate(devices)}
    uses |= {("host", h): use for h, use in enumerate(hosts)}
    for key, use in uses.items():
        assert use.at_ns[0] == 0
        assert all(one < other for one, other in pairwise(use.at_ns))
        assert all(one != other for one, other in pairwise(use.in_use))
        assert max(use.in_use) == use.peak_bytes
        assert use.in_use[-1] == 0
        for when, used in zip(use.at_ns, use.in_use, strict=True):
            held = 0
            for op in schedule.ops:
                for own, allocated, freed in memory_effects(problem, op.token):
                    if own == key:
                        held += allocated * (op.start_ns <= when) - freed * (op.end_ns <= when)
            assert held == used
            assert use.before_ns(when + 1) == used
    assert all(use.before_ns(0) == 0 for use in uses.values())
