"""A plan beside its choice of numbers: what each operator does, costs and sends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from planner.sharding.build import Formulation
from planner.sharding.certificate import proven_of
from planner.sharding.comparison import relative_throughput
from planner.sharding.costs import OperatorCosts, Terms
from planner.sharding.instance import totals
from planner.sharding.planning import Found
from planner.sharding.settings import effective_alpha, joules_per_byte, joules_per_flop
from planner.sharding.spec import ShardingSpec
from planner.sharding.stage_answer import StageAnswer

NS_PER_S = 1e9


def plan_document(spec: ShardingSpec, answer: StageAnswer) -> dict[str, Any]:
    """The plan, what is proven of it, and beside it what its operators do."""
    return _proven_plan(answer.found, answer.limit_bytes) | _plan_details(spec, answer)


def _proven_plan(found: Found, limit_bytes: int | None) -> dict[str, Any]:
    """The plan's own document, with what is proven among all plans that fit. What the search proved
    within the instance may hold only among those that keep less than the devices have."""
    assert found.plan is not None
    proven = proven_of(found, limit_bytes)
    plan = replace(found.plan, status=proven.status, lower_bound=proven.lower_bound)
    return plan.to_document()


def _plan_details(spec: ShardingSpec, answer: StageAnswer) -> dict[str, Any]:
    """The plan's sums, its predicted peak and step, its operators, and what is resharded."""
    found, formulation = answer.found, answer.formulation
    assert found.plan is not None
    choice = found.plan.choice
    sums = totals(found.instance, choice)
    step = answer.step
    reference_ns = answer.baselines[0].get("predicted_step_ns") if answer.baselines else None
    step_s = None if step is None else step.total_s
    return {
        "redundant_bytes": sums.redundant_bytes,
        "communication_bytes": sums.communication_bytes,
        "resharding_bytes": sums.resharding_bytes,
        "predicted_peak_bytes": found.peak_bytes,
        "device_memory_bytes": answer.limit_bytes,
        "predicted_step_ns": None if step_s is None else round(step_s * NS_PER_S),
        "relative_throughput": relative_throughput(
            step_s, None if reference_ns is None else reference_ns / NS_PER_S
        ),
        **_further_terms(spec, answer),
        "operators": _operators(found, formulation, choice),
        "resharding": _resharding(formulation, choice),
    }


def _further_terms(spec: ShardingSpec, answer: StageAnswer) -> dict[str, Any]:
    """Which part of the redundant bytes stands for further terms of the objective, and for how
    many FLOPs and joules of one device in a step; nothing where there are none."""
    if spec.terms == Terms():
        return {}
    found, formulation = answer.found, answer.formulation
    assert found.plan is not None
    settings = replace(formulation.settings, terms=Terms())
    graph, devices = formulation.graph, settings.devices.count
    redundant, excess_flops, flops = 0, 0.0, 0.0
    for number, chosen in enumerate(found.plan.choice):
        strategy, times = formulation.strategies[number][chosen], formulation.times[number]
        costs = OperatorCosts(graph.operators[number], graph.tensors, formulation.saved, settings)
        whole = settings.micro_batches * (strategy.rule.flops + strategy.rule.backward_flops)
        own = costs.flops(strategy)
        redundant += times * costs.of(strategy).redundant_bytes
        flops += times * own
        excess_flops += times * (own - whole / devices)
    sums = totals(found.instance, found.plan.choice)
    sent = sums.communication_bytes + sums.resharding_bytes
    return {
        "further_terms": {
            "bytes": sums.redundant_bytes - redundant,
            "excess_flops": excess_flops,
            "joules": flops * joules_per_flop(spec) + sent * joules_per_byte(spec),
        }
    }


def _operators(
    found: Found, formulation: Formulation, choice: Sequence[int]
) -> list[dict[str, Any]]:
    rows = []
    for number, operator in enumerate(formulation.graph.operators):
        strategy = formulation.strategies[number][choice[number]]
        cost = found.instance.operators[number].strategies[choice[number]]
        data, row, column = strategy.degrees
        rows.append(
            {
                "name": operator.name,
                "kind": operator.kind,
                "strategy": strategy.name,
                "data": data,
                "row": row,
                "column": column,
                "spare": strategy.spare,
                "layers": formulation.times[number],
                "redundant_bytes": cost.redundant_bytes,
                "communication_bytes": cost.communication_bytes,
                "memory_bytes": cost.memory_bytes,
            }
        )
    return rows


def _resharding(formulation: Formulation, choice: Sequence[int]) -> list[dict[str, Any]]:
    """The tensors that change their layout on the way, all layers together.

    What goes from a folded layer to the next one's same operator depends on one strategy only: the
    instance, and so the sums, count it as that operator's own communication.
    """
    rows = []
    for passage in formulation.passages:
        size = passage.times * int(passage.table[choice[passage.source], choice[passage.target]])
        if size:
            rows.append(
                {
                    "from": formulation.graph.operators[passage.source].name,
                    "to": formulation.graph.operators[passage.target].name,
                    "tensor": passage.tensor,
                    "bytes": size,
                    "counted_as": "communication"
                    if passage.source == passage.target
                    else "resharding",
                }
            )
    return rows


def swept(
    spec: ShardingSpec, answer: StageAnswer, alpha: float, found: Found | None
) -> dict[str, Any]:
    """One weight's plan. Its instance is the answer's with another `alpha` (and, where the
    devices' memory binds, another limit). Without one no time was left for it."""
    weight = {"alpha": alpha, "effective_alpha": effective_alpha(spec, alpha)}
    nothing = {"proven": None, "gap": None}
    if found is None:
        return {**weight, "status": "no_plan", **nothing}
    described = {**weight, "device_memory_bytes": found.instance.device_memory_bytes}
    if found.plan is None:
        return {**described, "status": found.status, **nothing}
    sums = totals(found.instance, found.plan.choice)
    proven = proven_of(found, answer.limit_bytes)
    return {
        **described,
        **_proven_plan(found, answer.limit_bytes),
        "proven": proven.is_best,
        "gap": proven.gap,
        "redundant_bytes": sums.redundant_bytes,
        "communication_bytes": sums.communication_bytes + sums.resharding_bytes,
        "predicted_peak_bytes": found.peak_bytes,
        "strategies": [
            answer.formulation.strategies[number][chosen].name
            for number, chosen in enumerate(found.plan.choice)
        ],
    }
