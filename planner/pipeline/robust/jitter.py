"""How long an iteration takes when durations vary and ranks follow order and waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np

from planner.compiled import compiled
from planner.errors import Interrupted
from planner.pipeline.kernel.tables import Flags, Integers, tables_of
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.robust.clocks import NO_CYCLE, topological_order
from planner.pipeline.robust.execution import Floats, computing_device, earliest_starts_ns
from planner.pipeline.robust.precedence import PrecedenceGraph, precedence_graph
from planner.pipeline.schedule import Schedule
from planner.progress import StopCheck, never

EDGES_TO_FOLLOW = 40_000_000
"""What all samples together follow, about half a second; long schedules get fewer samples."""

FEWEST_SAMPLES = 20


@dataclass(frozen=True)
class Jitter:
    """Quantiles (nearest rank) of the problem's objective over seeded samples.

    In each sample every operation and every latency between stages takes its time multiplied by a
    factor of its own, drawn uniformly between 1 - `relative` and 1 + `relative`. Epilogues keep
    their time.
    """

    relative: float
    samples: int
    seed: int
    p50_ns: int
    p95_ns: int
    max_ns: int


def jitter(
    problem: PipelineProblem,
    schedule: Schedule,
    *,
    relative: float = 0.1,
    seed: int = 0,
    samples: int = 200,
) -> Jitter:
    """Execute the schedule's order and waits under random durations, as early as they allow.

    Takes `samples` at most: the number used depends on the schedule's size only. Memory is not
    looked at; whether it always suffices is for `verify_any_durations` to say. Raises
    `ValueError` if the waits deadlock.
    """
    graph = precedence_graph(problem, schedule)
    return jitter_of_graph(problem, graph, relative=relative, seed=seed, samples=samples)


def jitter_of_graph(
    problem: PipelineProblem,
    graph: PrecedenceGraph,
    should_stop: StopCheck = never,
    *,
    relative: float = 0.1,
    seed: int = 0,
    samples: int = 200,
) -> Jitter:
    """The same by the precedence graph of a schedule with its waits. Raises `Interrupted` if told
    to stop before `FEWEST_SAMPLES`; of more, those that there was time for count."""
    affordable = EDGES_TO_FOLLOW // max(1, len(graph.before))
    count = min(samples, max(FEWEST_SAMPLES, affordable))
    values: list[int] = []
    for value in _objectives(problem, graph, relative, np.random.default_rng(seed), count):
        values.append(value)
        if should_stop():
            break
    if len(values) < min(count, FEWEST_SAMPLES):
        raise Interrupted("stopped before there were enough samples")
    count = len(values)
    values.sort()
    return Jitter(
        relative=relative,
        samples=count,
        seed=seed,
        p50_ns=values[ceil(0.5 * count) - 1],
        p95_ns=values[ceil(0.95 * count) - 1],
        max_ns=values[-1],
    )


def _objectives(
    problem: PipelineProblem,
    graph: PrecedenceGraph,
    relative: float,
    random: np.random.Generator,
    samples: int,
) -> Iterator[int]:
    order, caught = topological_order(graph)
    if caught != NO_CYCLE:
        raise ValueError("the schedule's waits deadlock")
    duration_ns = (graph.end_ns - graph.start_ns).astype(np.float64)
    epilogue_ns = np.array([device.epilogue_ns for device in problem.devices], dtype=np.float64)
    device = computing_device(tables_of(problem), graph.numbers)
    delayed = np.flatnonzero(graph.lag_ns)
    lag_ns = np.zeros_like(graph.lag_ns)
    low, high = 1 - relative, 1 + relative
    for _ in range(samples):
        lag_ns[delayed] = graph.lag_ns[delayed] * random.uniform(low, high, len(delayed))
        makespan, span = _spans_ns(
            order,
            graph.first,
            graph.before,
            graph.at_end,
            lag_ns,
            duration_ns * random.uniform(low, high, len(duration_ns)),
            device,
            epilogue_ns,
        )
        yield round(makespan if problem.objective is Objective.MAKESPAN else span)


@compiled
def _spans_ns(
    order: Integers,
    first: Integers,
    before: Integers,
    at_end: Flags,
    lag_ns: Floats,
    duration_ns: Floats,
    device: Integers,
    epilogue_ns: Floats,
) -> tuple[float, float]:
    """Makespan and steady span (rule 7) of the earliest times."""
    start_ns = earliest_starts_ns(order, first, before, at_end, lag_ns, duration_ns)
    first_start_ns = np.full(len(epilogue_ns), np.inf)
    last_end_ns = np.full(len(epilogue_ns), -np.inf)
    for v in range(len(order)):
        d = device[v]
        if d >= 0:
            first_start_ns[d] = min(first_start_ns[d], start_ns[v])
            last_end_ns[d] = max(last_end_ns[d], start_ns[v] + duration_ns[v] + epilogue_ns[d])
    spans = last_end_ns - first_start_ns
    return last_end_ns.max() - first_start_ns.min(), spans.max()
