"""Why no plan fits: the least memory any plan needs, who takes it, and the ways out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from planner.cost.memory import StateBytes
from planner.sharding.build import Formulation, formulate
from planner.sharding.graph import Graph
from planner.sharding.least_memory import checkpointed, least_memory
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.smallest_devices import smallest_devices
from planner.sharding.training import ShardingTraining


def explain_shortage(
    formulation: Formulation,
    layered: Formulation,
    limit_bytes: int,
    rule_options: RuleOptions,
    training: ShardingTraining,
) -> dict[str, Any]:
    """The `infeasibility` part of an answer.

    `formulation` has all strategies, pinned or not; `layered` is the same with layers folded, which
    checkpointing has to know. `devices_searched` is the largest number of devices that was tried.
    """
    least = least_memory(formulation)
    found, searched = smallest_devices(formulation, limit_bytes, rule_options)
    return {
        "device_memory_bytes": limit_bytes,
        "least_memory_bytes": least.total_bytes,
        "least_states_bytes": least.states_bytes,
        "least_activation_bytes": least.activation_bytes,
        "culprit": least.name,
        "smallest_devices": found,
        "devices_searched": searched,
        "remedies": [
            {"change": change, "memory_bytes": size, "fits": size <= limit_bytes}
            for change, size in _remedies(layered, rule_options, training)
        ],
    }


def _remedies(
    formulation: Formulation, rule_options: RuleOptions, training: ShardingTraining
) -> Iterator[tuple[str, int]]:
    """What would change, and the least that any plan would keep then."""
    graph, settings = formulation.graph, formulation.settings

    def changed(new_graph: Graph, **changes: Any) -> Formulation:
        return formulate(new_graph, replace(settings, **changes), rule_options, with_passages=False)

    yield (
        "activation checkpointing of whole layers",
        least_memory(formulation, checkpointed(formulation)).total_bytes,
    )
    if training.precision == "fp32":
        states = replace(training, precision="bf16").state_bytes
        half = changed(halved(graph), states=states)
        yield "mixed precision (training.precision bf16)", least_memory(half).total_bytes
    if settings.zero_stage < 3:
        sharded = changed(graph, zero_stage=3)
        yield "ZeRO stage 3 (training.zero_stage 3)", least_memory(sharded).total_bytes
    on_device = _on_device(settings.states)
    offloaded = changed(graph, states=on_device)
    yield "optimizer states in host memory", least_memory(offloaded).total_bytes
    everything = changed(graph, zero_stage=3, states=on_device)
    yield (
        "ZeRO stage 3, checkpointing and optimizer states in host memory",
        least_memory(everything, checkpointed(everything)).total_bytes,
    )


def _on_device(states: StateBytes) -> StateBytes:
    """Without optimizer states."""
    return replace(states, optimizer=0)


def halved(graph: Graph) -> Graph:
    """The graph with its fp32 activations in bf16, but for losses, which stay in fp32."""
    losses = {
        tensor
        for operator in graph.operators
        if operator.kind == "cross_entropy"
        for tensor in operator.outputs
    }
    return replace(
        graph,
        tensors={
            name: replace(tensor, dtype="bf16")
            if tensor.dtype == "fp32" and name not in losses
            else tensor
            for name, tensor in graph.tensors.items()
        },
    )
