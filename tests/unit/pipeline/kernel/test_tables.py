"""The tables against what the problem says of one operation at a time."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from random import Random
from weakref import ref

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.kernel.orders import order_arrays, orders_from_arrays
from planner.pipeline.kernel.tables import (
    ALLOCATED,
    ASSIGNED_HOST,
    CELL,
    CHANNEL,
    DEVICE,
    DURATION,
    EPILOGUE,
    FREED,
    HOST,
    KIND,
    KINDS,
    LAG,
    LIMIT,
    PREDECESSOR,
    STAGE,
    SUCCESSOR,
    UNLIMITED,
    grid,
    numbered,
    operation_numbers,
    tables_of,
    tokens_of,
    without_limits,
)
from planner.pipeline.orders import orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import OpKind, Token
from tests.problems import problems, uniform_problem
from tests.random_schedules import random_schedule


def every_token(problem: PipelineProblem) -> list[Token]:
    stages, micro_batches = range(len(problem.stages)), range(problem.micro_batches)
    return [Token(*each) for each in product(KINDS, stages, micro_batches)]


@settings(max_examples=60, deadline=None)
@given(problems())
def test_every_operation_has_the_numbers_of_the_problem(problem: PipelineProblem) -> None:
    tables = tables_of(problem)
    tokens = every_token(problem)
    number = {token: k for k, token in enumerate(tokens)}
    assert operation_numbers(tables, tokens).tolist() == list(range(len(tables.ops)))

    def neighbour(op: OpKind, s: int, m: int, step: int) -> int:
        return number.get(Token(op, s + step, m), -1) if op in "FB" else -1

    for (op, s, m), row in zip(tokens, tables.ops, strict=True):
        stage = problem.stages[s]
        down = 1 if op == "F" else -1
        lag = 0
        if op == "F" and s:
            lag = problem.transfers[s - 1].forward_ns[m]
        elif op == "B" and s + 1 < len(problem.stages):
            lag = problem.transfers[s].backward_ns[m]
        duration_ns, allocated, freed = {
            "F": (stage.forward_ns[m], stage.activation_bytes[m], 0),
            "B": (
                stage.backward_input_ns[m],
                stage.backward_allocation_bytes(m),
                stage.backward_free_bytes(m),
            ),
            "W": (stage.backward_weight_ns[m], 0, stage.late_bytes(m)),
            "R": (stage.reload_ns[m], stage.offload_bytes[m], 0),
            "O": (stage.offload_ns[m], 0, stage.offload_bytes[m]),
        }[op]
        expected = {
            DURATION: duration_ns,
            ALLOCATED: allocated,
            FREED: freed,
            LAG: lag,
            PREDECESSOR: neighbour(op, s, m, -down),
            SUCCESSOR: neighbour(op, s, m, down),
            DEVICE: stage.device,
            KIND: KINDS.index(op),
            STAGE: s,
            CELL: s * problem.micro_batches + m,
        }
        assert {column: row[column] for column in expected} == expected
    transfers = [token for token in tokens if token.op in "RO"]
    pairs = {(problem.channel(t.stage, t.op), tables.ops[number[t], CHANNEL]) for t in transfers}
    assert len(pairs) == len(dict(pairs)) == tables.channels


@settings(max_examples=60, deadline=None)
@given(problems())
def test_devices_and_hosts(problem: PipelineProblem) -> None:
    tables, roomy = tables_of(problem), without_limits(tables_of(problem))
    limits = [device.activation_memory_bytes for device in problem.devices]
    host_limits = [host.memory_bytes for host in problem.hosts]

    def given_or_none(values: list[int]) -> list[int | None]:
        return [None if value == UNLIMITED else value for value in values]

    assert given_or_none(tables.devices[:, LIMIT].tolist()) == limits
    assert given_or_none(tables.host_limit.tolist()) == host_limits
    assert tables.devices[:, EPILOGUE].tolist() == [d.epilogue_ns for d in problem.devices]
    for device, row in zip(problem.devices, tables.devices, strict=True):
        host = -1 if device.host is None else device.host
        assert row[ASSIGNED_HOST] == host
        assert row[HOST] == (host if host >= 0 and host_limits[host] is not None else -1)
    assert np.all(roomy.devices[:, [LIMIT, HOST]] == [UNLIMITED, -1])
    assert np.all(roomy.host_limit == UNLIMITED)
    assert np.array_equal(roomy.devices[:, ASSIGNED_HOST], tables.devices[:, ASSIGNED_HOST])


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(0, 2**32))
def test_orders_come_back_from_their_numbers(problem: PipelineProblem, seed: int) -> None:
    assume(find_infeasibility(problem) is None)
    orders = orders_of(problem, random_schedule(problem, Random(seed)).ops)
    tables = tables_of(problem)
    arrays = order_arrays(tables, orders)
    assert orders_from_arrays(tables, arrays).compute == orders.compute
    kinds, stages, micro_batches = (tables.ops[arrays.numbers, c] for c in (KIND, STAGE, CELL))
    micro_batches = micro_batches % problem.micro_batches
    assert np.array_equal(numbered(tables, kinds, stages, micro_batches), arrays.numbers)
    assert tokens_of(kinds, stages, micro_batches) == [t for own in orders.compute for t in own]
    durations = grid(tables, 0, DURATION).tolist()
    assert durations == [list(stage.forward_ns) for stage in problem.stages]


def test_the_tables_of_the_latest_problem_are_kept_while_it_exists() -> None:
    one, other = uniform_problem(devices=2), uniform_problem(devices=3)
    assert tables_of(one) is tables_of(one)
    assert len(tables_of(other).devices) == 3
    assert len(tables_of(one).devices) == 2
    arrays = ref(tables_of(one).ops)
    assert arrays() is not None
    del one
    gc.collect()
    assert arrays() is None


def test_threads_that_ask_at_once_get_the_tables_of_their_own_problem() -> None:
    problems = [uniform_problem(devices=devices) for devices in range(1, 9)]

    def asked(problem: PipelineProblem) -> bool:
        return all(len(tables_of(problem).devices) == len(problem.devices) for _ in range(200))

    with ThreadPoolExecutor(len(problems)) as pool:
        assert all(pool.map(asked, problems))
