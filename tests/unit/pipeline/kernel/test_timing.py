"""The compiled timing of sequences against the simulation that it stands in for."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planner.errors import OrderError
from planner.pipeline.documents import read_problem
from planner.pipeline.kernel.longest_path import POSITION, latest_starts, time_from
from planner.pipeline.kernel.simulate import NEVER, simulate, workspace_for
from planner.pipeline.kernel.tables import DURATION, sequences_of, tables_of, timed_ops
from planner.pipeline.objective import spans_ns
from planner.pipeline.orders import Orders
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import Token
from planner.pipeline.search.moves import random_below
from planner.pipeline.search.state import index_rows, state_of
from planner.pipeline.timing import orders_of, schedule_from_ops, time_orders
from planner.pipeline.verify import verify
from tests.problems import problems
from tests.random_schedules import random_schedule

NO_ZEROS = {"zero_times": False}


@given(problems(offload=False, memory="none", **NO_ZEROS), st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_longest_paths_are_the_earliest_times(problem: PipelineProblem, seed: int) -> None:
    schedule = random_schedule(problem, Random(seed))
    orders = orders_of(problem, schedule.ops)
    tables = tables_of(problem)
    rows, lengths = sequences_of(tables, orders.compute)
    end_ns = np.full(len(tables.ops), -1, dtype=np.int64)
    work = np.zeros((len(problem.devices), 4), dtype=np.int64)
    latest = time_from(tables, rows, lengths, end_ns, NEVER, work)
    expected = time_orders(problem, orders)
    assert sorted(timed_ops(tables, rows, lengths, end_ns)) == sorted(expected.ops)
    assert latest == expected.makespan_ns
    assert time_from(tables, rows, lengths, end_ns, latest - 1, np.zeros_like(work)) < 0


@given(problems(offload=False, memory="none", **NO_ZEROS), st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_latest_starts_keep_every_end_and_shorten_spans(
    problem: PipelineProblem, seed: int
) -> None:
    schedule = random_schedule(problem, Random(seed))
    tables = tables_of(problem)
    rows, lengths = sequences_of(tables, orders_of(problem, schedule.ops).compute)
    end_ns = np.full(len(tables.ops), -1, dtype=np.int64)
    work = np.zeros((len(problem.devices), 4), dtype=np.int64)
    time_from(tables, rows, lengths, end_ns, NEVER, work)
    early = schedule_from_ops(problem, timed_ops(tables, rows, lengths, end_ns))
    late_start_ns = np.full(len(tables.ops), -1, dtype=np.int64)
    due_ns = np.array([end_ns[rows[d, n - 1]] for d, n in enumerate(lengths)], dtype=np.int64)
    latest_starts(tables, rows, lengths, due_ns, late_start_ns, work)
    late_end_ns = late_start_ns + tables.ops[:, DURATION]
    late = schedule_from_ops(problem, timed_ops(tables, rows, lengths, late_end_ns))
    assert verify(problem, late) == []
    assert late.steady_span_ns <= early.steady_span_ns
    assert late.makespan_ns <= early.makespan_ns


def _two_channels_of_one_host() -> PipelineProblem:
    """Both want to offload at the same instant, and the host has room for one of them."""
    copied = {"offload_ns": 1, "reload_ns": 1, "backward_input_ns": 1}
    return read_problem(
        {
            "micro_batches": 2,
            "devices": [{"host": 0}, {"host": 0}, {}],
            "hosts": [{"memory_bytes": 2}],
            "stages": [
                {"device": 0, "forward_ns": 7, "activation_bytes": 2, "offload_bytes": 2, **copied},
                {"device": 2, "forward_ns": 1, "backward_input_ns": 1, "activation_bytes": 0},
                {"device": 1, "forward_ns": 6, "activation_bytes": 1, "offload_bytes": 1, **copied},
            ],
        }
    )


@given(problems(**NO_ZEROS), st.integers(0, 10**6))
@example(_two_channels_of_one_host(), 0)
@settings(max_examples=300, deadline=None)
def test_what_is_simulated_is_valid(problem: PipelineProblem, seed: int) -> None:
    try:
        schedule = random_schedule(problem, Random(seed))
    except OrderError:
        return
    compute = orders_of(problem, schedule.ops).compute
    tables = tables_of(problem)
    rows, lengths = sequences_of(tables, compute)
    state = state_of(tables, rows, lengths)
    end_ns = np.zeros(len(tables.ops), dtype=np.int64)
    latest = simulate(tables, rows, lengths, state.offloaded, end_ns, NEVER, workspace_for(tables))
    if latest < 0:
        # First come, first served may lock up where the schedule's own orders do not.
        assert not all(tables.private)
        return
    ops = timed_ops(tables, rows, lengths, end_ns)
    timed = schedule_from_ops(problem, ops)
    assert verify(problem, timed) == []
    assert latest == max(spans_ns(problem, ops)[0], 0)
    if all(tables.private):
        assert sorted(ops) == sorted(time_orders(problem, Orders(compute)).ops)


@given(problems(**NO_ZEROS), st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_tables_and_sequences_lose_nothing(problem: PipelineProblem, seed: int) -> None:
    try:
        schedule = random_schedule(problem, Random(seed))
    except OrderError:
        return
    compute = orders_of(problem, schedule.ops).compute
    tables = tables_of(problem)
    rows, lengths = sequences_of(tables, compute)
    end_ns = np.arange(len(tables.ops), dtype=np.int64) + 100
    tokens = {op.token for op in timed_ops(tables, rows, lengths, end_ns)}
    assert tokens == {op.token for op in schedule.ops}
    state = state_of(tables, rows, lengths)
    index_rows(tables, state)
    reloads = {
        token.stage * problem.micro_batches + token.micro_batch
        for token in tokens
        if token.op == "R"
    }
    assert set(np.flatnonzero(state.offloaded).tolist()) == reloads


def test_sequences_that_wait_for_each_other_are_noticed() -> None:
    problem = _two_stages()
    tables = tables_of(problem)
    compute = (
        (Token("B", 0, 0), Token("F", 0, 0)),
        (Token("F", 1, 0), Token("B", 1, 0)),
    )
    rows, lengths = sequences_of(tables, compute)
    end_ns = np.full(len(tables.ops), -1, dtype=np.int64)
    work = np.zeros((2, 4), dtype=np.int64)
    assert time_from(tables, rows, lengths, end_ns, NEVER, work) < 0
    assert work[0, POSITION] == 0


def test_random_numbers_are_spread() -> None:
    random = np.array([12345], dtype=np.int64)
    drawn = [random_below(random, 10) for _ in range(2000)]
    assert all(150 < drawn.count(k) < 250 for k in range(10))


def _two_stages() -> PipelineProblem:
    from planner.pipeline.documents import read_problem

    stage = {"forward_ns": 1, "backward_input_ns": 2, "activation_bytes": 1}
    return read_problem(
        {
            "micro_batches": 1,
            "devices": [{}, {}],
            "stages": [{"device": 0, **stage}, {"device": 1, **stage}],
        }
    )
