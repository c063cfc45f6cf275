"""The layers and plans under which predictions are compared with PyTorch."""

from __future__ import annotations

import time
from collections import Counter

from planner.cost.memory import StateBytes
from planner.sharding.build import Formulation, formulate
from planner.sharding.costs import CostSettings
from planner.sharding.devices import read_devices
from planner.sharding.graph import DTYPE_BYTES, Graph
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.options import SolveOptions
from planner.sharding.planning import Budget, find_plan
from tests.torch_plans.blocks import transfer
from tests.torch_plans.plans import (
    Plan,
    data_parallel,
    mixed,
    random_plan,
    tensor_parallel,
)

DEVICES = 4
SIZES = {
    "hidden_size": 1024,
    "ffn_hidden_size": 4096,
    "heads": 16,
    "batch": 8,
    "sequence": 512,
    "gated": False,
}
CASES = {
    "fp32, math": {"dtype": "fp32", "flash": False},
    "bf16, flash": {"dtype": "bf16", "flash": True},
    "fp32, flash, post-norm": {"dtype": "fp32", "flash": True, "norm_placement": "post"},
}


def formulation_of(graph: Graph, dtype: str) -> Formulation:
    """As PyTorch trains here: gradients as the parameters, and no optimizer."""
    size = DTYPE_BYTES[dtype]
    states = StateBytes(parameter=size, gradient=size, optimizer=0)
    settings = CostSettings(devices=read_devices(DEVICES), states=states, joules_per_flop=0.0)
    return formulate(graph, settings, RuleOptions())


def plans_of(formulation: Formulation) -> dict[str, Plan]:
    graph = formulation.graph
    data, tensor = data_parallel(graph, DEVICES), tensor_parallel(graph, 1, DEVICES)
    return {
        "tensor": tensor,
        "data": data,
        "2x2": tensor_parallel(graph, 2, 2),
        "data, feed-forward tensor": mixed(graph, data, tensor),
        "ours": least_redundant(formulation),
        "random": random_plan(graph, DEVICES, 1),
    }


def least_redundant(formulation: Formulation) -> Plan:
    """The planner's own, with redundancy and communication weighed alike."""
    budget = Budget(time.monotonic() + 60, lambda: False, lambda _line: None)
    found = find_plan(formulation, 1.0, None, SolveOptions(engine="highs"), budget)
    assert found.plan is not None
    return {
        operator.name: strategies[number]
        for operator, strategies, number in zip(
            formulation.graph.operators, formulation.strategies, found.plan.choice, strict=True
        )
    }


def choice_of(formulation: Formulation, plan: Plan) -> list[int]:
    return [
        [strategy.name for strategy in strategies].index(plan[operator.name].name)
        for operator, strategies in zip(
            formulation.graph.operators, formulation.strategies, strict=True
        )
    ]


def collectives_of(graph: Graph, plan: Plan, rank: int) -> dict[str, int]:
    """One per sum over a role of more than one device, one per collective of an operator's own,
    and one per tensor that has to reach other devices on its way, its gradient on the way back."""
    found: Counter[str] = Counter()
    for operator in graph.operators:
        strategy = plan[operator.name]
        rule = strategy.rule
        partial = [output.partial for output in rule.outputs]
        partial += [each.partial_gradient for each in (*rule.inputs, *rule.parameters)]
        for roles in partial:
            pairs = zip(roles, strategy.degrees, strict=True)
            found["all_reduce"] += sum(summed and degree > 1 for summed, degree in pairs)
        for own in rule.collectives:
            found[own.kind] += getattr(strategy.degrees, own.role) > 1
        for tensor, of_input in zip(operator.inputs, rule.inputs, strict=True):
            producer = graph.operators[graph.producer_of[tensor]]
            made = plan[producer.name]
            split = made.rule.outputs[producer.outputs.index(tensor)].split
            source, target = made.layout(split), strategy.layout(of_input.split)
            shape = graph.tensors[tensor].shape
            for way in ((source, target), (target, source)):
                found[transfer(*way, shape, rank).kind] += 1
    return {kind: n for kind, n in found.items() if n and kind not in ("same", "slice")}
