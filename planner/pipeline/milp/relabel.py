"""Micro-batches numbered in the order in which a schedule runs them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from planner.pipeline.problem import PipelineProblem, Stage, Transfer
from planner.pipeline.schedule import Schedule


def common_order(problem: PipelineProblem, schedule: Schedule) -> tuple[int, ...] | None:
    """The order in which every stage runs the F, B and W of the micro-batches, if it is one.

    W exists only for some micro-batches; its order counts as far as it goes.
    """
    sequences: dict[tuple[str, int], list[int]] = {}
    for op in sorted(schedule.ops, key=lambda op: (op.start_ns, op.end_ns, op.micro_batch)):
        if op.op in "FBW":
            sequences.setdefault((op.op, op.stage), []).append(op.micro_batch)
    order = sequences["F", 0]
    position = {m: i for i, m in enumerate(order)}
    for sequence in sequences.values():
        places = [position[m] for m in sequence]
        if places != sorted(places):
            return None
    return tuple(order)


def renumber_problem(problem: PipelineProblem, order: tuple[int, ...]) -> PipelineProblem:
    """The problem whose micro-batch i is `order[i]` of the given one."""

    def permuted(values: Stage | Transfer) -> dict[str, Any]:
        quantities = {f.name: getattr(values, f.name) for f in fields(values)}
        return {
            name: tuple(quantity[m] for m in order)
            for name, quantity in quantities.items()
            if isinstance(quantity, tuple)
        }

    return replace(
        problem,
        stages=tuple(replace(stage, **permuted(stage)) for stage in problem.stages),
        transfers=tuple(replace(t, **permuted(t)) for t in problem.transfers),
    )


def renumber_schedule(schedule: Schedule, order: tuple[int, ...]) -> Schedule:
    """The schedule whose micro-batch i is `order[i]` of the given one."""
    place = {m: i for i, m in enumerate(order)}
    ops = tuple(op._replace(micro_batch=place[op.micro_batch]) for op in schedule.ops)
    return replace(schedule, ops=ops)


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """The order that takes back a renumbering."""
    place = {m: i for i, m in enumerate(order)}
    return tuple(place[i] for i in range(len(order)))
