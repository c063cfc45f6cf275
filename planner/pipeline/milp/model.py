"""The pipeline MILP: what its columns and rows are, put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import mip

from planner.pipeline.milp import cuts
from planner.pipeline.milp.formulation import BuildStopped, Column, Formulation, Row
from planner.pipeline.milp.graph import PrecedenceGraph
from planner.pipeline.milp.memory import add_device_memory
from planner.pipeline.milp.offload import add_channels, add_host_memory
from planner.pipeline.milp.windows import tighten
from planner.pipeline.problem import Objective, PipelineProblem

LARGEST_UNITS = 1_000_000
"""Horizon in units of the model above which times are scaled down, past their common divisor."""
SLACK = 0.01
"""How far the horizon of big-M lies beyond the best known objective, as a share of it."""


def common_divisor_ns(problem: PipelineProblem) -> int:
    """The greatest common divisor of all times: every objective value is a multiple of it."""
    times = [device.epilogue_ns for device in problem.devices]
    for stage in problem.stages:
        times += [*stage.forward_ns, *stage.backward_input_ns, *stage.backward_weight_ns]
        for m, size in enumerate(stage.offload_bytes):
            times += [stage.offload_ns[m], stage.reload_ns[m]] if size else []
    for transfer in problem.transfers:
        times += [*transfer.forward_ns, *transfer.backward_ns]
    return math.gcd(*times) or 1


def serial_horizon_ns(problem: PipelineProblem) -> int:
    """Everything one after the other: no best schedule takes longer, as it is never all idle."""
    total = max(device.epilogue_ns for device in problem.devices)
    for stage in problem.stages:
        for m in range(problem.micro_batches):
            total += stage.compute_ns(m)
            if stage.offload_bytes[m]:
                total += stage.offload_ns[m] + stage.reload_ns[m]
    for transfer in problem.transfers:
        total += sum(transfer.forward_ns) + sum(transfer.backward_ns)
    return total


def anything(a: int, b: int) -> bool:
    """Every pair may change its order."""
    return True


@dataclass(frozen=True)
class PipelineModel:
    """A built model: the formulation, its objective column, the divisor of all times, and the grid
    on which the optimal objective lies: the divisor for a makespan, 1 ns for a steady span."""

    build: Formulation
    objective: int
    divisor_ns: int
    grid_ns: int

    def bound_ns(self, units: float, printed_digits: int) -> int:
        """A solver's bound as a bound in ns: never above the truth, rounded up to the grid
        on which the objective's optimum lies.

        Solvers satisfy rows and integrality within 1e-6, which big-M turns into a share of the
        horizon, and they print `printed_digits` significant digits; that much is taken off
        before rounding.
        """
        tolerance = 1e-2 + 2e-6 * self.build.units(self.build.windows.horizon_ns)
        tolerance += abs(units) * 0.5 * 10.0 ** (1 - printed_digits)
        multiples = math.ceil((units - tolerance) * self.build.unit_ns / self.grid_ns)
        return max(0, multiples * self.grid_ns)


def build_model(
    problem: PipelineProblem,
    *,
    best_ns: int | None,
    lower_bound_ns: int,
    offload: Mapping[tuple[int, int], bool] | None = None,
    add_window: Callable[[PrecedenceGraph], Callable[[int, int], bool]] | None = None,
    should_end: Callable[[], bool] = lambda: False,
) -> PipelineModel:
    """Build the model of a problem under fixed micro-batch order.

    `best_ns` is the best objective known; the model keeps every schedule up to a little above
    it. `lower_bound_ns` must be a valid bound. `add_window` adds a window's fixed order to the
    graph and returns which pairs may still change. Raises `Refuted` if nothing fits `best_ns`,
    `BuildStopped` once `should_end` says so.
    """

    def check_time() -> None:
        if should_end():
            raise BuildStopped

    graph = PrecedenceGraph(problem, offload)
    check_time()
    may_change: Callable[[int, int], bool] = anything
    if add_window is not None:
        may_change = add_window(graph)
        check_time()
        graph.close()
    divisor = common_divisor_ns(problem)
    horizon = _horizon_ns(problem, best_ns, divisor)
    windows = tighten(graph, horizon, by_memory=add_window is None, check_time=check_time)
    unit = divisor
    while horizon / unit > LARGEST_UNITS:
        unit *= 10
    build = Formulation(graph, windows, unit, may_change, should_end)
    # Off the grid, a steady span may be shorter than on it (see `bounds.lower_bounds`).
    grid = divisor if problem.objective is Objective.MAKESPAN else 1
    objective = _add_objective(build, horizon, lower_bound_ns, integral=unit == grid)
    _add_precedences(build)
    _add_exclusivity(build)
    add_channels(build)
    add_device_memory(build)
    add_host_memory(build)
    cuts.add_prefix_monotone(build)
    cuts.add_work_counting(build, objective)
    cuts.add_triangles(build)
    if build.binaries == 0:
        # Engines take a model without integers for an LP, whose end they report in another way.
        idle = build.add_binary(Column("idle"))
        build.add_at_most_zero(Row(-1.0).add_literal(idle, 1))
    return PipelineModel(build, objective, divisor, grid)


def _horizon_ns(problem: PipelineProblem, best_ns: int | None, divisor: int) -> int:
    serial = serial_horizon_ns(problem)
    if best_ns is None:
        return serial
    slack = max(10 * divisor, math.ceil(best_ns * SLACK / divisor) * divisor)
    return min(max(serial, best_ns), best_ns + slack)


def _add_objective(build: Formulation, horizon: int, lower_bound_ns: int, *, integral: bool) -> int:
    """C >= end + epilogue - first start: of everything, or of each device for the steady span."""
    graph, problem = build.graph, build.graph.problem
    objective = build.add_column(
        Column("objective"),
        lower=build.units(min(lower_bound_ns, horizon)),
        upper=build.units(horizon),
        var_type=mip.INTEGER if integral else mip.CONTINUOUS,
    )
    build.minimise(objective)
    for d, group in enumerate(graph.compute_of_device):
        first = graph.first_of_device(d)
        own = sum(1 << i for i in group)
        for i in group:
            if graph.after[i] & own:
                continue
            row = build.end_row(i).add(objective, -1)
            row.constant += build.units(problem.devices[d].epilogue_ns)
            if problem.objective is Objective.STEADY_SPAN and first is not None:
                row.add(build.starts[first], -1)
            build.add_at_most_zero(row)
    return objective


def _add_precedences(build: Formulation) -> None:
    """start(b) >= start(a) + lag for every edge; after an open transfer, its time if it happens."""
    graph = build.graph
    for a, edges in enumerate(graph.successors):
        for b, lag in edges.items():
            row = Row(build.units(lag)).add(build.starts[a], 1).add(build.starts[b], -1)
            if graph.is_open(a) and (a, b) not in graph.from_start:
                row.add_literal(build.offload(a), build.units(graph.duration[a]))
            build.add_at_most_zero(row)


def _add_exclusivity(build: Formulation) -> None:
    """A device computes one operation at a time."""
    graph = build.graph
    for d in range(len(graph.problem.devices)):
        busy = [i for i in graph.free_compute(d) if graph.duration[i]]
        for position, a in enumerate(busy):
            for b in busy[position + 1 :]:
                build.order(a, b)
