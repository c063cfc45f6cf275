"""A placement of experts as JSON: where they are, what that gains, how good it is, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from planner.cost.notes import Note
from planner.training.experts.layer import Layer
from planner.training.experts.place import PROVEN_WITHIN, Packed, Placement
from planner.training.experts.problem import ExpertProblem, contiguous, load_factor
from planner.training.experts.verify import VERIFIER, find_violations

Held = Sequence[Sequence[int]]


def mean_load_factor(placement: Placement) -> float:
    """The load factor of all layers together, by which to multiply what experts compute: layers
    run one after the other, and each waits for its most loaded device."""
    weights = placement.problem.routing.weights
    factors = [
        load_factor(held, weights[layer]) for layer, held in enumerate(placement.experts_of_device)
    ]
    return sum(factors) / len(factors)


def answer_of(placement: Placement) -> dict[str, Any]:
    """The answer, layers of the same placement together.

    Times are of one micro-batch, forward and backward, through the experts of all layers: sums
    over layers of computing and exchanging. `gain` is the share of the default placement's time
    that is saved. `traffic` counts one exchange of all layers.
    """
    problem = placement.problem
    layers = problem.layers()
    default = contiguous(problem.routing.experts, problem.group.devices)
    default_s = sum(
        layer.time_s(_loads(problem, number, default)) for number, layer in enumerate(layers)
    )
    default_factors = [load_factor(default, own) for own in problem.routing.weights]
    time_s = sum(packed.time_s for packed in placement.packed)
    bound_s = sum(packed.bound_s for packed in placement.packed)
    gap = max(0.0, time_s - bound_s) / time_s if time_s else 0.0
    return {
        "layers": [_layers_part(placement, layers, numbers) for numbers in _alike(placement)],
        "load_factor": mean_load_factor(placement),
        "time_s": time_s,
        "lower_bound_s": bound_s,
        "gap": gap,
        "status": _status(gap),
        "default": {
            "load_factor": sum(default_factors) / len(default_factors),
            "time_s": default_s,
            "fits": _fits(problem, [default] * problem.routing.layers),
        },
        "gain": 1 - time_s / default_s if default_s else 0.0,
        "traffic": _traffic(placement),
        "memory_bytes": _memory_bytes(problem, placement.experts_of_device),
        "memory_limit_bytes": problem.group.memory_bytes and [*problem.group.memory_bytes],
        "verified": not find_violations(placement),
        "verifier": VERIFIER,
        "basis": [*_basis(problem, layers)],
    }


def _alike(placement: Placement) -> list[list[int]]:
    """Layers of equal weights and placement."""
    groups: dict[object, list[int]] = {}
    weights = placement.problem.routing.weights
    for number, held in enumerate(placement.experts_of_device):
        groups.setdefault((weights[number], held), []).append(number)
    return list(groups.values())


def _layers_part(
    placement: Placement, layers: Sequence[Layer], numbers: Sequence[int]
) -> dict[str, Any]:
    problem, first = placement.problem, numbers[0]
    packed, held = placement.packed[first], placement.experts_of_device[first]
    layer, weights = layers[first], problem.routing.weights[first]
    default = contiguous(problem.routing.experts, problem.group.devices)
    loads = _loads(problem, first, held)
    return {
        "layers": [*numbers],
        "experts_of_device": [[*own] for own in held],
        "load_of_device": [load * layer.devices / layer.total for load in loads],
        "load_factor": load_factor(held, weights),
        "default_load_factor": load_factor(default, weights),
        "compute_s": layer.compute_s * max(loads),
        "exchange_s": layer.exchange_s(loads),
        "time_s": packed.time_s,
        "default_time_s": layer.time_s(_loads(problem, first, default)),
        "lower_bound_s": packed.bound_s,
        "gap": packed.gap,
        "status": _status(packed.gap),
        "found_by": packed.found_by,
        "proof": _proof(packed),
    }


def _status(gap: float) -> str:
    return "optimal" if gap <= PROVEN_WITHIN else "feasible"


def _proof(packed: Packed) -> str:
    bound = packed.proven_by or "the weights: their mean, or the largest of them"
    if packed.is_optimal:
        return f"no packing is faster, by {bound}"
    ends = {
        "gap": "within the gap asked for",
        "time_limit": "out of time",
        "stopped": "stopped",
        "not_solved": "found quickly, without an engine",
    }
    return f"{ends[packed.ended_by]}; bound by {bound}"


def _loads(problem: ExpertProblem, number: int, held: Held) -> list[int]:
    weights = problem.routing.whole_weights[number]
    return [sum(weights[expert] for expert in own) for own in held]


def _memory_bytes(problem: ExpertProblem, placed: Sequence[Held]) -> list[int]:
    """States of experts on each device, of all layers."""
    return [
        sum(len(held[device]) for held in placed) * problem.costs.state_bytes
        for device in range(problem.group.devices)
    ]


def _fits(problem: ExpertProblem, placed: Sequence[Held]) -> bool:
    limits = problem.group.memory_bytes
    return limits is None or all(
        used <= limit for used, limit in zip(_memory_bytes(problem, placed), limits, strict=True)
    )


def _traffic(placement: Placement) -> dict[str, Any]:
    """What all devices together send in one exchange of each layer, and where it goes as shares
    of all copies of tokens: each device's experts get their part from every device."""
    problem = placement.problem
    group, nodes = problem.group, problem.group.node_of_device
    in_node = cross_node = 0.0
    for number, held in enumerate(placement.experts_of_device):
        frequencies = problem.routing.frequencies(number)
        for device, own in enumerate(held):
            copies = problem.costs.tokens * sum(frequencies[expert] for expert in own)
            size = nodes.count(nodes[device])
            in_node += (size - 1) * copies
            cross_node += (group.devices - size) * copies
    copies_of_layer = problem.costs.tokens * group.devices * problem.routing.experts_per_token
    everything = copies_of_layer * problem.routing.layers
    return {
        "in_node_bytes": round(in_node * problem.costs.token_bytes),
        "cross_node_bytes": round(cross_node * problem.costs.token_bytes),
        "own_share": 1 / group.devices,
        "in_node_share": in_node / everything,
        "cross_node_share": cross_node / everything,
    }


def _basis(problem: ExpertProblem, layers: Sequence[Layer]) -> Iterator[Note]:
    routing, group, costs = problem.routing, problem.group, problem.costs
    yield {
        "what": "routing",
        "value": f"{len(set(routing.weights))} different distribution(s) over {routing.experts} "
        f"experts in {routing.layers} layer(s), {routing.experts_per_token} per token",
        "basis": "The frequencies given, taken to hold for the whole run and for the tokens of "
        "each device alike; which experts are chosen together is not known.",
    }
    yield {
        "what": "time of experts",
        "value": f"{costs.token_compute_s:.3g} s per token and expert on the most loaded device, "
        f"then {costs.exchanges} exchanges",
        "basis": "All devices of the group wait for the most loaded one.",
    }
    yield {
        "what": "exchange",
        "value": f"{costs.tokens} tokens per device, {costs.token_bytes:,} bytes to each expert",
        "basis": "All-to-all of one copy per chosen expert (GShard, Megatron-LM): the device that "
        "gets or sends longest, in full duplex, inside its node and to other nodes at once. "
        "Latency is the same for every placement and left out.",
    }
    if not layers[0].departure_s:
        yield {
            "what": "bytes sent",
            "value": "the same in every placement",
            "basis": "Tokens begin evenly on devices of equally large nodes, so the placement "
            "decides which device gets how much, not how much there is.",
        }
    yield {
        "what": "default placement",
        "value": f"expert e on device e x {group.devices} // {routing.experts}",
        "basis": "Neighbours on one device, as in Megatron-LM.",
    }
    if problem.equal_counts:
        yield {
            "what": "experts per device",
            "value": str(routing.experts // group.devices),
            "basis": "Megatron-LM needs equal counts. Renumbering the experts (rows of the router "
            "and expert weights alike) in the order listed turns its default into this placement.",
        }
    elif any(min(layer.capacity) < routing.experts for layer in layers):
        yield {
            "what": "experts per device",
            "value": "as memory allows",
            "basis": "Each layer gets an equal part of each device's memory; bounds hold for such "
            "placements.",
        }
    yield {
        "what": "optimal",
        "value": f"within {PROVEN_WITHIN:.3%}",
        "basis": "What engines can prove with weights of six digits.",
    }
