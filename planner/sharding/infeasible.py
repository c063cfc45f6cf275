"""Why no plan fits: the least memory any plan needs, who takes it, and the ways out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from planner.cost.memory import StateBytes
from planner.sharding.build import Formulation, formulate
from planner.sharding.graph import Graph
from planner.sharding.known_peak import lowest_known_peak_bytes
from planner.sharding.least_memory import Least, checkpointed, least_memory
from planner.sharding.operators.rule import RuleOptions
from planner.sharding.smallest_devices import Fewest
from planner.sharding.training import ShardingTraining

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
            _remedy(way, limit_bytes) for way in _ways_out(layered, rule_options, training)
        ],
    }


class Way(StrEnum):
    """Kinds of ways out."""

    CHECKPOINTING = "checkpointing"
    MIXED_PRECISION = "mixed_precision"
    ZERO_STAGE = "zero_stage"
    OPTIMIZER_IN_HOST_MEMORY = "optimizer_in_host_memory"
    TOGETHER = "together"


@dataclass(frozen=True)
class _WayOut:
    """What would change, and the least that any plan would keep then.

    `request_changes` are values to put into the request, by path; None where a plan cannot be
    asked for so. (Of mixed precision too: a graph that is posted says the types of its tensors.)
    """

    way: Way
    change: str
    changed: Formulation
    least: Least
    request_changes: Mapping[str, Any] | None = None


def _remedy(way_out: _WayOut, limit_bytes: int) -> dict[str, Any]:
    """`memory_bytes`: the least that any plan keeps then. It fits if a plan is known whose peak
    does too; with checkpointing, of which no peak is predicted, if what is kept does."""
    kept = way_out.least.total_bytes
    described = {
        "remedy": way_out.way.value,
        "change": way_out.change,
        "request_changes": way_out.request_changes,
        "memory_bytes": kept,
        "predicted_peak_bytes": None,
    }
    if way_out.way in (Way.CHECKPOINTING, Way.TOGETHER) or kept > limit_bytes:
        return {**described, "fits": kept <= limit_bytes}
    peak = lowest_known_peak_bytes(way_out.changed, limit_bytes)
    fits = peak is not None and peak <= limit_bytes
    return {**described, "predicted_peak_bytes": peak, "fits": fits}


def _ways_out(
    formulation: Formulation, rule_options: RuleOptions, training: ShardingTraining
) -> Iterator[_WayOut]:
    graph, settings = formulation.graph, formulation.settings

    def changed(new_graph: Graph, **changes: Any) -> Formulation:
        return formulate(new_graph, replace(settings, **changes), rule_options, with_passages=False)

    checkpoints = least_memory(formulation, checkpointed(formulation))
    words = f"activation checkpointing of whole layers {BY_PROGRAM}"
    yield _WayOut(Way.CHECKPOINTING, words, formulation, checkpoints)
    if training.precision == "fp32":
        states = replace(training, precision="bf16").state_bytes
        half = changed(halved(graph), states=states)
        words = "mixed precision (training.precision bf16)"
        yield _WayOut(Way.MIXED_PRECISION, words, half, least_memory(half))
    if settings.zero_stage < 3:
        sharded = changed(graph, zero_stage=3)
        words = "ZeRO stage 3 (training.zero_stage 3)"
        changes = {"training.zero_stage": 3}
        yield _WayOut(Way.ZERO_STAGE, words, sharded, least_memory(sharded), changes)
    on_device = _on_device(settings.states)
    offloaded = changed(graph, states=on_device)
    words = f"optimizer states in host memory {BY_PROGRAM}"
    yield _WayOut(Way.OPTIMIZER_IN_HOST_MEMORY, words, offloaded, least_memory(offloaded))
    everything = changed(graph, zero_stage=3, states=on_device)
    words = (
        "ZeRO stage 3 (training.zero_stage 3), checkpointing and optimizer states in host memory "
        "(the latter two are up to the training program)"
    )
    least = least_memory(everything, checkpointed(everything))
    yield _WayOut(Way.TOGETHER, words, everything, least)


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
