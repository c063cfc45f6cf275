"""What a step's time is made of, beyond what the closed form of it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.cost import times
from planner.cost.blocks import activation_shape, training_state_bytes
from planner.cost.build import CostModel
from planner.cost.parameters import Shard, layer_shard
from planner.cost.placement import interleaved
from planner.cost.step import Step
from planner.cost.times import StateRoutes
from planner.cost.traffic import layer_traffic
from planner.cost.training import Recomputation

COMMUNICATION_PARTS = (
    "tensor_collectives",
    "context_ring",
    "expert_all_to_all",
    "zero_collectives",
    "transfers",
    "gradient_reduction",
)


@dataclass(frozen=True, slots=True)
class LayerParts:
    """Seconds of one layer's forward and backward, per micro-batch on one GPU."""

    matrix_s: float
    recomputed_s: float
    tensor_s: float
    context_s: float
    expert_s: float
    zero_s: float


def layer_parts(costs: CostModel) -> LayerParts:
    """By the formulas of `planner.cost.times`, measured values left aside."""
    model, cluster, training = costs.model, costs.cluster, costs.training
    shape, degrees = activation_shape(training), training.degrees
    flops, traffic = times.layer_flops(model, shape), layer_traffic(model, shape)

    def compute_s(count: int) -> float:
        return times.compute_s(count, cluster, training.precision)

    scores_s = compute_s(flops.scores)

    def both_s(tensor: int, context: int, expert: int) -> float:
        """Of the collectives of these degrees, forward and backward."""
        own = replace(degrees, tensor=tensor, context=context, expert=expert)
        found = times.layer_collectives(model, shape, own, cluster, scores_s)
        return found.forward_s + found.backward_s

    tensor_s = both_s(degrees.tensor, 1, 1)
    collectives = times.layer_collectives(model, shape, degrees, cluster, scores_s)
    recomputed_s = 0.0
    if training.recomputation is Recomputation.FULL:
        forward_s = compute_s(flops.forward) + times.moved_s(traffic.forward, cluster)
        recomputed_s = forward_s + collectives.forward_s
    elif training.recomputation is Recomputation.SELECTIVE and not training.flash_attention:
        recomputed_s = scores_s + times.moved_s(traffic.recomputable, cluster)
    states, stage = training_state_bytes(training), training.zero_stage
    shard = layer_shard(model, degrees.tensor, degrees.expert)
    routes = StateRoutes.of(degrees, cluster)
    return LayerParts(
        matrix_s=compute_s(flops.forward + flops.backward_input + flops.backward_weight),
        recomputed_s=recomputed_s,
        tensor_s=tensor_s,
        context_s=both_s(degrees.tensor, degrees.context, 1) - tensor_s,
        expert_s=both_s(degrees.tensor, 1, degrees.expert) - tensor_s,
        zero_s=2 * times.parameter_gather_s(shard, states, stage, routes)
        + times.micro_batch_reduction_s(shard, states, stage, routes),
    )


def busiest_rank(step: Step) -> int:
    """The rank whose computation per micro-batch takes longest."""
    return max(range(len(step.work_ns)), key=lambda rank: step.work_ns[rank])


def why_slowest(costs: CostModel, step: Step) -> str:
    """What the busiest rank has that the others have not."""
    rank, pipeline = busiest_rank(step), costs.training.degrees.pipeline
    layers = sum(step.layers_per_stage[rank::pipeline])
    blocks = costs.blocks
    layer_ns = max(1, blocks.layer.compute_ns)
    mean = costs.model.layers / pipeline
    has = [f"{layers} of {costs.model.layers} layers ({mean:.4g} on average)"]
    if rank == 0:
        has.append(f"the embedding, worth {blocks.embedding.compute_ns / layer_ns:.2f} layers")
    if rank == pipeline - 1:
        has.append(f"the head, worth {blocks.head.compute_ns / layer_ns:.2f} layers")
    return f"rank {rank} has {' and '.join(has)}"


def step_parts(costs: CostModel, step: Step) -> dict[str, int]:
    """Parts that add up to the step, in ns, by the names of `COMMUNICATION_PARTS` and others.
    Where a measured profile replaces times, `compute` and `epilogue` are whole."""
    time = step.time
    return {
        **(_compute_parts(costs, step) or {"compute": time.compute_ns}),
        "bubble": time.bubble_ns,
        "transfers": time.transfer_ns,
        **(_epilogue_parts(costs, step) or {"epilogue": time.epilogue_ns}),
    }


def _compute_parts(costs: CostModel, step: Step) -> Mapping[str, int]:
    """The busiest rank's computation in a step, in ns: matrix products, what is computed again,
    collectives that a layer waits for, and the rest, which is bound by device memory. The parts
    add up to `compute_ns`. Empty where a measured profile replaces the times."""
    profile = costs.training.profile
    if any(
        name.endswith("_ns")
        for block in (profile.layer, profile.embedding, profile.head)
        for name in block.model_dump(exclude_none=True)
    ):
        return {}
    rank, pipeline = busiest_rank(step), costs.training.degrees.pipeline
    layers, parts = sum(step.layers_per_stage[rank::pipeline]), layer_parts(costs)
    matrix_s = layers * parts.matrix_s
    if rank == pipeline - 1:
        head = times.head_flops(costs.model, activation_shape(costs.training))
        count = head.forward + head.backward_input + head.backward_weight
        matrix_s += times.compute_s(count, costs.cluster, costs.training.precision)
    seconds = {
        "matrix_products": matrix_s,
        "recomputation": layers * parts.recomputed_s,
        "tensor_collectives": layers * parts.tensor_s,
        "context_ring": layers * parts.context_s,
        "expert_all_to_all": layers * parts.expert_s,
        "zero_collectives": layers * parts.zero_s,
    }
    found = {
        name: round(costs.training.micro_batches * value * 1e9) for name, value in seconds.items()
    }
    return found | {"memory_bound_operators": step.time.compute_ns - sum(found.values())}


def _rank_shard(costs: CostModel, step: Step, rank: int) -> Shard:
    """Parameters on each GPU of a rank."""
    pipeline = costs.training.degrees.pipeline
    layers = sum(step.layers_per_stage[rank::pipeline])
    return costs.parameters_of(interleaved(pipeline, step.chunks), rank, layers)


def _epilogue_parts(costs: CostModel, step: Step) -> Mapping[str, int]:
    """Gradient reduction (of a tied embedding's copies as well, and ZeRO's gathering of parameters)
    and optimizer step of the rank whose epilogue is longest, in ns. Empty where it was measured."""
    if costs.training.profile.epilogue_ns is not None:
        return {}
    epilogues = [device.epilogue_ns for device in step.problem.devices]
    shard = _rank_shard(costs, step, epilogues.index(max(epilogues)))
    states, stage = training_state_bytes(costs.training), costs.training.zero_stage
    optimizer_s = times.optimizer_s(shard, states, stage, costs.training.degrees, costs.cluster)
    optimizer_ns = round(optimizer_s * 1e9)
    return {
        "gradient_reduction": step.time.epilogue_ns - optimizer_ns,
        "optimizer": optimizer_ns,
    }
