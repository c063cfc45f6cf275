"""AdaOffload is valid for every feasible problem, and good on known ones."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.errors import OrderError
from planner.pipeline.adaoffload import AdaOffloadSettings, adaoffload
from planner.pipeline.bounds.lower_bounds import lower_bounds
from planner.pipeline.dispatch.admission import needed_offloads
from planner.pipeline.dispatch.list_scheduling import dispatch
from planner.pipeline.dispatch.policy import DispatchPolicy, every, unlimited
from planner.pipeline.dispatch.policy_search import (
    cap_mutations,
    offload_mutations,
    order_mutations,
)
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify
from tests import referee
from tests.problems import problems, uniform_problem

MS = 1_000_000


def violations_of(problem: PipelineProblem, policy: DispatchPolicy) -> list[str]:
    schedule = schedule_from_ops(problem, dispatch(problem, policy))
    return [str(v) for v in verify(problem, schedule)]


def any_policy(problem: PipelineProblem, random: Random) -> DispatchPolicy:
    """A policy far from any sensible one, made of every change that the search knows."""
    free = unlimited(problem)
    policy = DispatchPolicy(
        in_flight=free, held=free, warm_up=(0,) * len(free), offload=every(problem, 1, 1)
    )
    mutations = [
        *cap_mutations(problem),
        *order_mutations(problem, 4),
        *offload_mutations(problem, (None, 0.0, 0.5, 1.0)),
    ]
    for _ in range(random.randint(0, 20)):
        policy = random.choice(mutations)(policy, random)
    return policy


@settings(max_examples=200, deadline=None)
@given(problem=problems(max_micro_batches=6), seed=st.integers(0, 2**16))
def test_any_policy_ends_in_a_valid_schedule(problem: PipelineProblem, seed: int) -> None:
    assume(find_infeasibility(problem) is None)
    assume(needed_offloads(problem) is not None)
    assert violations_of(problem, any_policy(problem, Random(seed))) == []


@settings(max_examples=200, deadline=None)
@given(problem=problems(memory="tight", offload=True), seed=st.integers(0, 2**16))
def test_any_policy_ends_where_memory_is_tight(problem: PipelineProblem, seed: int) -> None:
    assume(find_infeasibility(problem) is None)
    assume(needed_offloads(problem) is not None)
    assert violations_of(problem, any_policy(problem, Random(seed))) == []


@settings(max_examples=40, deadline=None)
@given(problem=problems(max_chunks=2, max_micro_batches=6))
def test_answer_is_valid(problem: PipelineProblem) -> None:
    assume(find_infeasibility(problem) is None)
    schedule = adaoffload(problem, AdaOffloadSettings(backward_delay_tolerance_ns=3))
    assert verify(problem, schedule) == []
    violations, figures = referee.check(
        problem_to_document(problem), schedule.to_document(lower_bound_ns=None)
    )
    assert violations == []
    assert figures["makespan_ns"] == schedule.makespan_ns


@pytest.mark.parametrize(("limit", "offload_bytes"), [(8, 0), (8, 4), (9, 1), (12, 4)])
def test_smallest_memory_still_ends(limit: int, offload_bytes: int) -> None:
    problem = uniform_problem(
        limit=limit,
        chunks=2,
        micro_batches=4,
        offload_bytes=offload_bytes,
        offload_ns=30,
        reload_ns=30,
        backward_workspace_bytes=0,
    )
    assert verify(problem, adaoffload(problem)) == []


def test_several_chunks_that_fit_only_by_offloading() -> None:
    problem = uniform_problem(
        micro_batches=4, limit=6, chunks=3, offload_bytes=3, offload_ns=7, reload_ns=9
    )
    assert needed_offloads(problem)
    schedule = adaoffload(problem)
    assert verify(problem, schedule) == []
    assert schedule.offloads >= problem.micro_batches


def test_infeasible_problem_is_refused() -> None:
    with pytest.raises(OrderError):
        adaoffload(uniform_problem(limit=3))


def test_same_problem_same_answer() -> None:
    problem = uniform_problem(limit=9, offload_bytes=3, offload_ns=9, reload_ns=9)
    assert adaoffload(problem) == adaoffload(problem)


def test_stopping_at_once_still_answers() -> None:
    problem = uniform_problem(limit=9, offload_bytes=3, offload_ns=9, reload_ns=9)
    assert verify(problem, adaoffload(problem, should_stop=lambda: True)) == []


def test_nothing_is_offloaded_where_memory_never_passes_the_threshold() -> None:
    problem = uniform_problem(limit=64, offload_bytes=4, offload_ns=5, reload_ns=5)
    sparing = adaoffload(problem, AdaOffloadSettings(offload_threshold=1.0))
    eager = adaoffload(problem, AdaOffloadSettings(offload_threshold=0.0))
    assert sparing.offloads == 0
    assert eager.makespan_ns >= sparing.makespan_ns
    conservative = adaoffload(problem, AdaOffloadSettings(offload_strategy="conservative"))
    assert conservative.offloads == 0


def test_no_strategy_is_no_worse_than_either() -> None:
    problem = uniform_problem(limit=9, offload_bytes=3, offload_ns=9, reload_ns=9)
    by_strategy = [
        adaoffload(problem, AdaOffloadSettings(offload_strategy=strategy)).makespan_ns
        for strategy in ("aggressive", "conservative")
    ]
    assert adaoffload(problem).makespan_ns <= min(by_strategy) * 1.02


def test_first_backwards_wait_no_longer_than_the_tolerance() -> None:
    problem = uniform_problem(micro_batches=12)
    free = unlimited(problem)
    for tolerance in (0, 3, 6):
        policy = DispatchPolicy(
            in_flight=free,
            held=free,
            warm_up=(0,) * len(free),
            first_backward_delay_ns=tolerance,
            offload=every(problem, 1, 1),
        )
        starts = {op.token: op.start_ns for op in dispatch(problem, policy)}
        ends = {op.token: op.end_ns for op in dispatch(problem, policy)}
        for s in range(3):
            first = min((t for t in starts if t.op == "B" and t.stage == s), key=starts.__getitem__)
            arrival = ends[first._replace(stage=s + 1)] + problem.transfers[s].backward_ns[0]
            assert starts[first] - arrival <= tolerance


# Makespans in ms. The second figure is the public Zero Bubble heuristic's where it has one.
KNOWN = {
    "half-memory-8x16": (1395.0, 3043.9),
    "zb-6.2b-8x32-mem0.5": (4600.0, 9801.0),
    "zb-6.2b-8x32-mem0.75": (3400.0, 6068.0),
    "zb-6.2b-8x32-mem1": (2820.3, 2820.3),
    "offload-4x8-tight": (530.0, None),
    "offload-4x12-slow-half-duplex": (660.0, None),
    "offload-8x16-shared-switch": (945.0, None),
    "vshape-4dev-8st-12mb": (620.0, None),
    "interleaved-4dev-8st-16mb": (790.0, None),
    "balanced-4x8-1f1b-memory": (453.0, None),
}


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_known_problems(name: str) -> None:
    path = referee.BENCHMARKS / f"{name}.json"
    if not path.exists():
        pytest.skip("the benchmark problems are not beside this checkout")
    document = json.loads(path.read_text())
    problem = read_problem(document)
    schedule = adaoffload(problem, lower_bound_ns=lower_bounds(problem)[0].value_ns)
    violations, _ = referee.check(document, schedule.to_document(lower_bound_ns=None))
    assert violations == []
    most_ms, heuristic_ms = KNOWN[name]
    assert schedule.makespan_ns <= most_ms * MS
    assert heuristic_ms is None or schedule.makespan_ns <= heuristic_ms * MS
