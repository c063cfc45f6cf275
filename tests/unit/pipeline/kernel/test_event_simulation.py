"""The compiled simulation does exactly what the one in Python does."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from random import Random

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from planner.errors import OrderError
from planner.pipeline import timing
from planner.pipeline.feasibility.decide import find_infeasibility
from planner.pipeline.kernel.event_simulation import simulated
from planner.pipeline.kernel.tables import ops_at, tables_of
from planner.pipeline.orders import Orders, orders_of
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import TimedOp
from planner.pipeline.simulation import Simulation
from planner.pipeline.timing import time_orders
from tests.problems import problems, uniform_problem
from tests.random_schedules import random_schedule


def reference(problem: PipelineProblem, orders: Orders, enforce: bool) -> list[TimedOp] | None:
    """What the simulation in Python does; None where the orders cannot be executed."""
    try:
        return Simulation(problem, orders, enforce).run()
    except OrderError:
        return None


def compiled(problem: PipelineProblem, orders: Orders, enforce: bool) -> list[TimedOp] | None:
    """What the compiled one does."""
    tables = tables_of(problem)
    found = simulated(tables, orders, enforce)
    return None if found is None else ops_at(tables, *found)


def disturbed(orders: Orders, random: Random) -> Orders:
    """A few neighbours exchanged: mostly another valid order, at times one that deadlocks."""
    compute = [list(tokens) for tokens in orders.compute]
    for _ in range(random.randint(0, 3)):
        tokens = random.choice(compute)
        if len(tokens) > 1:
            k = random.randrange(len(tokens) - 1)
            tokens[k], tokens[k + 1] = tokens[k + 1], tokens[k]
    return replace(orders, compute=tuple(map(tuple, compute)))


@settings(max_examples=150, deadline=None)
@given(problems(), st.integers(0, 2**32), st.booleans(), st.booleans(), st.booleans())
@example(uniform_problem(devices=11, micro_batches=3), 0, True, False, False)
def test_it_starts_the_same_operations_at_the_same_time(
    problem: PipelineProblem, seed: int, enforce: bool, with_channels: bool, with_hosts: bool
) -> None:
    assume(find_infeasibility(problem) is None)
    random = Random(seed)
    orders = disturbed(orders_of(problem, random_schedule(problem, random).ops), random)
    orders = replace(
        orders,
        channels=orders.channels if with_channels else None,
        hosts=orders.hosts if with_hosts else None,
    )
    assert compiled(problem, orders, enforce) == reference(problem, orders, enforce)


def test_long_iterations_are_timed_by_it_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = uniform_problem(
        micro_batches=20, limit=20, offload_bytes=2, offload_ns=9, reload_ns=9
    )
    orders = orders_of(problem, random_schedule(problem, Random(0)).ops)
    expected = time_orders(problem, orders)
    monkeypatch.setattr(timing, "COMPILED_FROM_TOKENS", 0)
    assert time_orders(problem, orders) == expected
    backwards = Orders(tuple(tokens[::-1] for tokens in orders.compute))
    with pytest.raises(OrderError, match="what it waits for never ends"):
        time_orders(problem, backwards)


def test_the_api_loads_no_compiler() -> None:
    code = "import app.main, sys; sys.exit('numba' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
