"""The proof that a schedule's order and waits keep every memory limit, whatever takes how long."""

from __future__ import annotations

from collections.abc import Iterator

from planner.pipeline.problem import PipelineProblem
from planner.pipeline.robust.clocks import NO_CYCLE, Clocks, topological_order
from planner.pipeline.robust.precedence import PrecedenceGraph, precedence_graph
from planner.pipeline.schedule import Schedule
from planner.pipeline.verify import Violation, name_of, operation_violations
from planner.progress import StopCheck, never, watched
from planner.sizes import gib


def verify_any_durations(problem: PipelineProblem, schedule: Schedule) -> list[Violation]:
    """What can go wrong if ranks follow the schedule's order and waits but not its times.

    Empty if, for every assignment of non-negative durations to operations and latencies, an
    executor (see `planner.pipeline.robust.precedence`) runs everything to the end and never
    exceeds a device's or host's limit, however it orders what happens at one instant. Otherwise
    the waits that lead to a deadlock, or per memory the first allocation that may find too little
    room; there are durations then that make it so. The schedule's own times count for nothing but
    the sequence; incomplete operations are reported as `verify` does, and nothing else.
    """
    incomplete = list(operation_violations(problem, schedule.ops))
    if incomplete:
        return incomplete
    unknown = list(_unknown_waits(schedule))
    if unknown:
        return unknown
    return graph_violations(precedence_graph(problem, schedule))


def graph_violations(graph: PrecedenceGraph, should_stop: StopCheck = never) -> list[Violation]:
    """The same of a schedule whose operations are complete, by its precedence graph. Raises
    `Interrupted` if told to stop."""
    order, caught = topological_order(graph)
    if caught != NO_CYCLE:
        name = name_of(graph.ops[caught].token)
        return [Violation("deadlock", f"{name} waits for itself through orders and waits")]
    clocks = Clocks(graph)
    clocks.advance(order)
    return [
        violation
        for memory in watched(range(len(graph.memory_keys)), should_stop, 1)
        for violation in _memory_violation(graph, clocks, memory)
    ]


def _unknown_waits(schedule: Schedule) -> Iterator[Violation]:
    known = {op.token for op in schedule.ops}
    for wait in schedule.waits or ():
        for token in (wait.token, *wait.after):
            if token not in known:
                yield Violation("unknown operation", f"a wait names {name_of(token)}")


def _memory_violation(graph: PrecedenceGraph, clocks: Clocks, memory: int) -> Iterator[Violation]:
    v, used = clocks.first_excess(memory)
    if v < 0:
        return
    kind, number = graph.memory_keys[memory]
    yield Violation(
        "out of memory under other durations",
        f"{kind} {number}: {gib(used)} may be in use when {name_of(graph.ops[v].token)} "
        f"starts, limit {gib(int(graph.memories.limit_bytes[memory]))}",
    )
