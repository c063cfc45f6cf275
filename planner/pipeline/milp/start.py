"""A schedule as a value for every column of the MILP: the solvers' warm start."""

from __future__ import annotations

from dataclasses import dataclass

from planner.pipeline.milp.formulation import Column
from planner.pipeline.milp.graph import PrecedenceGraph
from planner.pipeline.milp.model import PipelineModel
from planner.pipeline.problem import Objective
from planner.pipeline.schedule import Schedule


@dataclass(frozen=True)
class Instants:
    """Start and end in ns of every operation of a graph; of transfers that do not happen, the
    point at which the model may put them. `rank` breaks ties as the precedences do."""

    start: list[int]
    end: list[int]
    offloaded: set[tuple[int, int]]
    rank: list[int]

    def is_before(self, a: int, b: int) -> bool:
        """Whether a comes before b in the order of starts."""
        return (self.start[a], self.rank[a]) < (self.start[b], self.rank[b])


def instants_of(graph: PrecedenceGraph, schedule: Schedule) -> Instants:
    """When each operation of the graph starts and ends in a schedule, from its first start."""
    timed = {op.token: op for op in schedule.ops}
    origin = min(op.start_ns for op in schedule.ops)
    count = len(graph.tokens)
    start, end = [0] * count, [0] * count
    for i, token in enumerate(graph.tokens):
        if token in timed:
            start[i] = timed[token].start_ns - origin
            end[i] = timed[token].end_ns - origin
    absent = {i for i in range(count) if graph.tokens[i] not in timed}
    _place_absent_transfers(graph, start, end, absent)
    rank = [0] * count
    for position, i in enumerate(graph.topological):
        rank[i] = position
    offloaded = {(op.stage, op.micro_batch) for op in schedule.ops if op.op == "O"}
    return Instants(start, end, offloaded, rank)


def _place_absent_transfers(
    graph: PrecedenceGraph, start: list[int], end: list[int], absent: set[int]
) -> None:
    """As early as the transfers before them allow, which is always before their B."""
    at_least = [0] * len(start)
    for a in graph.topological:
        if a in absent:
            start[a] = end[a] = at_least[a]
        for b, lag in graph.successors[a].items():
            if b in absent:
                follows_end = (a, b) not in graph.from_start
                earliest = end[a] if follows_end else start[a] + lag
                at_least[b] = max(at_least[b], earliest)


def start_values(model: PipelineModel, schedule: Schedule) -> list[float]:
    """A value for every column, in the order of the columns. Times are in units of the model."""
    build = model.build
    instants = instants_of(build.graph, schedule)
    makespan = build.graph.problem.objective is Objective.MAKESPAN
    objective = schedule.makespan_ns if makespan else schedule.steady_span_ns
    values = []
    for column in build.columns:
        if column.kind == "objective":
            values.append(build.units(objective))
        elif column.kind == "start":
            values.append(build.units(instants.start[column.a]))
        elif column.kind == "idle":
            values.append(0.0)
        else:
            values.append(float(_holds(build.graph, column, instants)))
    return values


def _holds(graph: PrecedenceGraph, column: Column, at: Instants) -> bool:
    a, b = column.a, column.b
    decided = graph.tokens[a][1:] in at.offloaded
    if column.kind == "offload":
        return decided
    if column.kind in ("order", "begins"):
        return at.is_before(a, b)
    if column.kind == "ended":
        # The row of an absent transfer has its full length, which is no loss: it holds nothing.
        return at.start[a] + graph.duration[a] <= at.start[b]
    reload = graph.index[graph.tokens[a]._replace(op="R")]
    if column.kind == "away":
        return decided and at.end[a] <= at.start[b] and at.is_before(b, reload)
    assert column.kind == "held"
    return decided and at.is_before(a, b) and at.end[reload] > at.start[b]
