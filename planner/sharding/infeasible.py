"""Why no plan fits: the least memory any plan needs, who takes it, and the ways out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from planner.cost.memory import StateBytes
from planner.sharding.build import Formulation, formulate
from planner.sharding.graph import Graph
from planner.sharding.known_peak import lowest_known_peak_bytes
from planner.sharding.least_memory import Least, checkpointed, least_memory
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.smallest_devices import Fewest
from planner.sharding.training import ShardingTraining

CHECKPOINTING = "checkpointing"
BY_PROGRAM = "(up to the training program: no field of a request plans with it)"


def explain_shortage(
    formulation: Formulation,
    layered: Formulation,
    limit_bytes: int,
    rule_options: RuleOptions,
    training: ShardingTraining,
    fewest: Fewest,
) -> dict[str, Any]:
    """The `infeasibility` part of an answer.

    `formulation` has all strategies, pinned or not; `layered` is the same with layers folded, which
    checkpointing has to know. `fewest` is what a search among larger numbers of devices came to.
    """
    least = least_memory(formulation)
    return {
        "device_memory_bytes": limit_bytes,
        "least_memory_bytes": least.total_bytes,
        "least_states_bytes": least.states_bytes,
        "least_activation_bytes": least.activation_bytes,
        "culprit": least.name,
        "smallest_devices": fewest.devices,
        "devices_searched": fewest.searched,
        "fewer_devices_ruled_out": fewest.fewer_ruled_out,
        "remedies": [
            _remedy(change, changed, own, limit_bytes)
            for change, changed, own in _remedies(layered, rule_options, training)
        ],
    }


def _remedy(change: str, changed: Formulation, least: Least, limit_bytes: int) -> dict[str, Any]:
    """`memory_bytes`: the least that any plan keeps then. It fits if a plan is known whose peak
    does too; with checkpointing, of which no peak is predicted, if what is kept does."""
    kept = least.total_bytes
    described = {"change": change, "memory_bytes": kept, "predicted_peak_bytes": None}
    if CHECKPOINTING in change or kept > limit_bytes:
        return {**described, "fits": kept <= limit_bytes}
    peak = lowest_known_peak_bytes(changed, limit_bytes)
    fits = peak is not None and peak <= limit_bytes
    return {**described, "predicted_peak_bytes": peak, "fits": fits}


def _remedies(
    formulation: Formulation, rule_options: RuleOptions, training: ShardingTraining
) -> Iterator[tuple[str, Formulation, Least]]:
    """What would change, and the least that any plan would keep then."""
    graph, settings = formulation.graph, formulation.settings

    def changed(new_graph: Graph, **changes: Any) -> Formulation:
        return formulate(new_graph, replace(settings, **changes), rule_options, with_passages=False)

    checkpoints = least_memory(formulation, checkpointed(formulation))
    yield f"activation {CHECKPOINTING} of whole layers {BY_PROGRAM}", formulation, checkpoints
    if training.precision == "fp32":
        states = replace(training, precision="bf16").state_bytes
        half = changed(halved(graph), states=states)
        yield "mixed precision (training.precision bf16)", half, least_memory(half)
    if settings.zero_stage < 3:
        sharded = changed(graph, zero_stage=3)
        yield "ZeRO stage 3 (training.zero_stage 3)", sharded, least_memory(sharded)
    on_device = _on_device(settings.states)
    offloaded = changed(graph, states=on_device)
    yield f"optimizer states in host memory {BY_PROGRAM}", offloaded, least_memory(offloaded)
    everything = changed(graph, zero_stage=3, states=on_device)
    yield (
        f"ZeRO stage 3 (training.zero_stage 3), {CHECKPOINTING} and optimizer states in host "
        "memory (the latter two are up to the training program)",
        everything,
        least_memory(everything, checkpointed(everything)),
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
