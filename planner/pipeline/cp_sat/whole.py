"""The scope of a whole problem, tightened by the objective that is to be reached."""

from __future__ import annotations

from collections.abc import Callable

from planner.errors import Refuted
from planner.pipeline.cp_sat.graph import break_symmetry, precedence_graph
from planner.pipeline.cp_sat.scale import TimeScale
from planner.pipeline.cp_sat.scope import Scope
from planner.pipeline.milp.graph import PrecedenceGraph
from planner.pipeline.milp.windows import tighten
from planner.pipeline.problem import MicroBatchOrder, Objective, PipelineProblem


def whole_scope(
    problem: PipelineProblem,
    scale: TimeScale,
    *,
    least_ns: int,
    most_units: int,
    check_time: Callable[[], None] = lambda: None,
) -> Scope | None:
    """All operations, for schedules of an objective of at most `most_units`.

    None if there is none: then the least objective is above it. `least_ns` is a proven bound.
    Raises whatever `check_time` raises.
    """
    least = scale.least_objective_units(least_ns)
    if most_units < least:
        return None
    graph = precedence_graph(problem)
    free = problem.micro_batch_order is MicroBatchOrder.FREE
    if free:
        break_symmetry(graph)
    if free and problem.objective is Objective.STEADY_SPAN:
        # The first stage's device is busy from the first F to the last B; each W that comes
        # later lies within the span of its own device, which begins before that.
        earliest = dict.fromkeys(range(len(graph.tokens)), 0)
        latest = {
            i: (2 if graph.tokens[i].op == "W" else 1) * most_units - scale.units(duration)
            for i, duration in enumerate(graph.duration)
        }
        return _scope(graph, scale, earliest, latest, least, most_units)
    try:
        windows = tighten(graph, most_units * scale.unit_ns, check_time=check_time)
    except Refuted:
        return None
    earliest = {i: scale.units(ns) for i, ns in enumerate(windows.earliest)}
    latest = {i: scale.units(ns) for i, ns in enumerate(windows.latest)}
    return _scope(graph, scale, earliest, latest, least, most_units)


def _scope(
    graph: PrecedenceGraph,
    scale: TimeScale,
    earliest: dict[int, int],
    latest: dict[int, int],
    least: int,
    most: int,
) -> Scope | None:
    if any(earliest[i] > latest[i] for i in earliest):
        return None
    return Scope(graph, scale, earliest, latest, least, most)
