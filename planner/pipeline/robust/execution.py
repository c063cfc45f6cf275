"""A schedule executed in its orders and waits, as early as they allow, for any durations."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from planner.compiled import compiled
from planner.errors import OrderError
from planner.pipeline.kernel.tables import (
    DEVICE,
    DURATION,
    EPILOGUE,
    KIND,
    STAGE,
    WEIGHT,
    Flags,
    Integers,
    Tables,
    tables_of,
)
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.robust.clocks import NO_CYCLE, topological_order
from planner.pipeline.robust.precedence import (
    PrecedenceGraph,
    precedence_graph,
    without_allocations,
)
from planner.pipeline.schedule import Schedule

Floats = npt.NDArray[np.float64]


class Execution:
    """A schedule's orders and waits as a graph whose longest paths are its times, for any
    durations; `graph` is the schedule's precedence graph where it is known. With `within_memory`
    allocations start in their order, as ranks that have waits to keep memory limits start them.
    Raises `OrderError` if orders and waits deadlock."""

    def __init__(
        self,
        problem: PipelineProblem,
        schedule: Schedule,
        *,
        within_memory: bool = False,
        graph: PrecedenceGraph | None = None,
    ) -> None:
        tables = tables_of(problem)
        graph = graph or precedence_graph(problem, schedule)
        self.graph = graph if within_memory else without_allocations(graph)
        self._order, caught = topological_order(self.graph)
        if caught != NO_CYCLE:
            raise OrderError("the orders and waits of the schedule deadlock")
        self._steady = problem.objective is Objective.STEADY_SPAN
        self.numbers = self.graph.numbers
        """The operations as `planner.pipeline.kernel.tables` numbers them, in sequence."""
        self.stage = tables.ops[self.numbers, STAGE]
        self.duration_ns = tables.ops[self.numbers, DURATION].astype(np.float64)
        self._device = computing_device(tables, self.numbers)
        self._epilogue_ns = tables.devices[:, EPILOGUE].astype(np.float64)

    def objective_ns(self, duration_ns: Floats) -> float:
        """The problem's objective where operations, in sequence, take so long."""
        graph = self.graph
        return float(
            _objective_ns(
                self._order,
                graph.first,
                graph.before,
                graph.at_end,
                graph.lag_ns,
                duration_ns,
                self._device,
                self._epilogue_ns,
                self._steady,
            )
        )

    def scaled_ns(self, factors: Floats) -> float:
        """The objective where each stage's operations take their times by its factor."""
        return self.objective_ns(self.duration_ns * factors[self.stage])


def computing_device(tables: Tables, numbers: Integers) -> Integers:
    """The device of each operation that computes; -1 of transfers."""
    return np.where(tables.ops[numbers, KIND] <= WEIGHT, tables.ops[numbers, DEVICE], -1)


@compiled
def earliest_starts_ns(
    order: Integers,
    first: Integers,
    before: Integers,
    at_end: Flags,
    lag_ns: Floats,
    duration_ns: Floats,
) -> Floats:
    """When each operation of a precedence graph can start: a longest path, along an `order` in
    which each comes after what it waits for."""
    start_ns = np.zeros(len(order))
    for v in order:
        start = 0.0
        for edge in range(first[v], first[v + 1]):
            u = before[edge]
            ready = start_ns[u]
            if at_end[edge]:
                ready += duration_ns[u] + lag_ns[edge]
            start = max(start, ready)
        start_ns[v] = start
    return start_ns


@compiled
def _objective_ns(
    order: Integers,
    first: Integers,
    before: Integers,
    at_end: Flags,
    lag_ns: Floats,
    duration_ns: Floats,
    device: Integers,
    epilogue_ns: Floats,
    steady: bool,
) -> float:
    """The makespan of the earliest times; or the steady span where everything is then put off as
    far as it goes without ending a device later."""
    start_ns = earliest_starts_ns(order, first, before, at_end, lag_ns, duration_ns)
    begin_ns = np.full(len(epilogue_ns), np.inf)
    end_ns = np.full(len(epilogue_ns), -np.inf)
    for v in range(len(order)):
        d = device[v]
        if d >= 0:
            begin_ns[d] = min(begin_ns[d], start_ns[v])
            end_ns[d] = max(end_ns[d], start_ns[v] + duration_ns[v])
    if not steady:
        return float((end_ns + epilogue_ns).max() - begin_ns.min())
    latest_ns = np.full(len(order), np.inf)
    begin_ns[:] = np.inf
    for k in range(len(order) - 1, -1, -1):
        v = order[k]
        d = device[v]
        if d >= 0:
            latest_ns[v] = min(latest_ns[v], end_ns[d] - duration_ns[v])
            begin_ns[d] = min(begin_ns[d], latest_ns[v])
        for edge in range(first[v], first[v + 1]):
            u = before[edge]
            limit = latest_ns[v]
            if at_end[edge]:
                limit -= duration_ns[u] + lag_ns[edge]
            latest_ns[u] = min(latest_ns[u], limit)
    return float((end_ns + epilogue_ns - begin_ns).max())
