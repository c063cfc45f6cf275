"""Independent verification of a plan against its instance: every rule of the data format.

Written against the rules, not against the code that makes plans: it adds up everything itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.sharding.instance import Instance, Plan

VERIFIER = "loadmaster sharding verifier 1"
TOLERANCE = 1e-6
"""Relative, of objectives: sums of floating-point numbers depend on their order."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule: its short name, and a sentence with the operators and numbers."""

    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


def find_violations(instance: Instance, plan: Plan) -> list[Violation]:
    """Every rule that the plan breaks, in reading order; empty if it is valid.

    If strategies are missing or unknown, or a table has not one entry for each pair of strategies,
    only that is reported, since the sums need them all. That an optimum is one is not shown, only
    that its bound says so.
    """
    violations = [*_table_violations(instance), *_choice_violations(instance, plan)]
    if violations:
        return violations
    return [*_memory_violations(instance, plan), *_objective_violations(instance, plan)]


def _table_violations(instance: Instance) -> Iterator[Violation]:
    counts = [len(operator.strategies) for operator in instance.operators]
    for edge in instance.edges:
        ends = f"edge {edge.source} -> {edge.target}"
        if not (0 <= edge.source < len(counts) and 0 <= edge.target < len(counts)):
            yield Violation("edges", f"{ends} leads to an operator that does not exist")
        elif edge.source == edge.target:
            yield Violation("edges", f"{ends} leads from an operator to itself")
        elif len(edge.resharding_bytes) != counts[edge.source] or any(
            len(row) != counts[edge.target] for row in edge.resharding_bytes
        ):
            yield Violation(
                "resharding tables",
                f"{ends} has no table of {counts[edge.source]} x {counts[edge.target]}",
            )


def _choice_violations(instance: Instance, plan: Plan) -> Iterator[Violation]:
    if len(plan.choice) != len(instance.operators):
        yield Violation(
            "one strategy per operator",
            f"{len(plan.choice)} strategies for {len(instance.operators)} operators",
        )
        return
    for operator, number in zip(instance.operators, plan.choice, strict=True):
        if not 0 <= number < len(operator.strategies):
            yield Violation(
                "one strategy per operator",
                f"{operator.name} has {len(operator.strategies)} strategies, not number {number}",
            )


def _memory_violations(instance: Instance, plan: Plan) -> Iterator[Violation]:
    memory = 0
    for operator, number in zip(instance.operators, plan.choice, strict=True):
        memory += operator.strategies[number].memory_bytes
    if memory != plan.memory_bytes:
        yield Violation("memory", f"reported {plan.memory_bytes} bytes, recomputed {memory}")
    limit = instance.device_memory_bytes
    if limit is not None and memory > limit:
        yield Violation("device memory", f"{memory} bytes on a device of {limit}")


def _objective_violations(instance: Instance, plan: Plan) -> Iterator[Violation]:
    redundant = sent = 0
    for operator, number in zip(instance.operators, plan.choice, strict=True):
        redundant += operator.strategies[number].redundant_bytes
        sent += operator.strategies[number].communication_bytes
    for edge in instance.edges:
        sent += edge.resharding_bytes[plan.choice[edge.source]][plan.choice[edge.target]]
    objective = redundant + instance.alpha * sent
    room = TOLERANCE * max(1.0, abs(objective))
    if not abs(objective - plan.objective) <= room:
        yield Violation("objective", f"reported {plan.objective}, recomputed {objective}")
    if plan.status not in ("optimal", "feasible"):
        yield Violation("status", f"{plan.status!r} is neither 'optimal' nor 'feasible'")
    if plan.lower_bound is not None and not plan.lower_bound <= objective + room:
        yield Violation("lower bound", f"{plan.lower_bound} is above the objective, {objective}")
    if plan.status == "optimal" and not (
        plan.lower_bound is not None and plan.lower_bound >= objective - room
    ):
        yield Violation("status", f"optimal at {objective}, but only {plan.lower_bound} is proven")
