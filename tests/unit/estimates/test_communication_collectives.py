"""Collectives of a step: bytes from published formulas, times equal to the cost model's."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost import times
from planner.cost.blocks import activation_shape, training_state_bytes
from planner.cost.build import CostModel
from planner.cost.parameters import layer_shard
from planner.cost.placement import interleaved
from planner.cost.routes import TIERS, Group, Tier, all_to_all_s, ring_route, tier_route
from planner.cost.spec import read_cost_model
from planner.cost.times import StateRoutes
from planner.estimates.communication.collectives import Collective, Operation, collectives_of
from planner.estimates.communication.groups import DATA_LAST, PIPELINE_LAST, Kind, RankOrder
from planner.estimates.communication.tiers import all_to_all_tier, ring_tier

GPT_3 = {"tensor_parallel": 8, "pipeline_parallel": 8, "micro_batches": 32}


def costs_of(
    training: dict[str, Any], cluster: Any = "16x8xA100-80GB", model: str = "GPT-3-175B"
) -> CostModel:
    return read_cost_model(model, cluster, training)


def sent(costs: CostModel, kind: Kind, order: str = PIPELINE_LAST) -> list[Collective]:
    found = collectives_of(costs, RankOrder(order, costs.training.degrees))
    return [each for each in found if each.kind is kind]


def test_tensor_collectives_of_gpt_3() -> None:
    """Korthikanti et al. 2022: four all-reduces of 2 s b h bytes per layer and micro-batch, or four
    all-gathers and four reduce-scatters; 96 layers on 8 pipeline ranks."""
    activations = 2 * 2048 * 12288
    (reduced,) = sent(costs_of({**GPT_3, "sequence_parallel": False}), Kind.TENSOR)
    assert (reduced.operation, reduced.size) == (Operation.ALL_REDUCE, activations)
    assert reduced.sent_bytes == 2 * 7 * activations // 8
    assert (reduced.per_micro_batch, reduced.per_step) == (4 * 12, 4 * 12 * 32)
    halves = sent(costs_of(GPT_3), Kind.TENSOR)
    assert {half.operation for half in halves} == {Operation.ALL_GATHER, Operation.REDUCE_SCATTER}
    assert sum(half.sent_bytes for half in halves) == reduced.sent_bytes
    assert all(half.per_micro_batch == 4 * 12 for half in halves)
    assert sum(half.step_s for half in halves) == pytest.approx(reduced.step_s)


def test_full_recomputation_repeats_the_forward() -> None:
    (reduced,) = sent(
        costs_of({**GPT_3, "sequence_parallel": False, "recomputation": "full"}), Kind.TENSOR
    )
    assert reduced.per_micro_batch == 6 * 12


def test_what_zero_sends_per_parameter() -> None:
    """Rajbhandari et al. 2020, section 7, with gradients and parameters of 2 bytes and one
    micro-batch: 2 (d-1)/d of the parameters for stages 0 to 2, 3 (d-1)/d for stage 3."""
    base = {"tensor_parallel": 8, "pipeline_parallel": 1, "micro_batches": 1}
    per_stage = []
    for stage in range(4):
        training = {**base, "gradient_precision": "same", "zero_stage": stage}
        per_stage.append(
            sum(
                each.sent_bytes * each.per_step
                for each in sent(costs_of(training, "4x8xA100-80GB"), Kind.DATA)
            )
        )
    layers = 96 * layer_shard(costs_of(base).model, 8).total * 2
    assert per_stage[0] == pytest.approx(per_stage[1], rel=1e-9)
    assert per_stage[0] == pytest.approx(2 * 3 / 4 * layers, rel=0.01)
    assert per_stage[2] == pytest.approx(2 * 3 / 4 * layers, rel=0.01)
    assert per_stage[3] == pytest.approx(3 * 3 / 4 * layers, rel=0.01)


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("model", "degrees"),
    [
        ("GPT-3-175B", {"tensor_parallel": 8, "pipeline_parallel": 4}),
        ("Mixtral-8x7B", {"tensor_parallel": 2, "pipeline_parallel": 2, "expert_parallel": 4}),
        ("Mixtral-8x7B", {"tensor_parallel": 4, "pipeline_parallel": 2}),
        ("Llama-3-8B", {"tensor_parallel": 2, "pipeline_parallel": 2, "context_parallel": 4}),
    ],
)
def test_state_collectives_take_what_the_cost_model_says(
    model: str, degrees: dict[str, Any], stage: int
) -> None:
    training = {**degrees, "micro_batches": 4, "zero_stage": stage}
    costs = costs_of(training, "16x8xH100", model)
    found = [
        each
        for kind in (Kind.DATA, Kind.DATA_CONTEXT, Kind.EXPERT_DATA)
        for each in sent(costs, kind)
    ]
    placement = interleaved(costs.training.degrees.pipeline, 1)
    layers = costs.layers_per_stage(placement)
    states, routes = (
        training_state_bytes(costs.training),
        StateRoutes.of(costs.training.degrees, costs.cluster),
    )
    shards = [costs.parameters_of(placement, d, layers[d]) for d in range(placement.devices)]
    whole = max(shards, key=lambda shard: shard.total)
    once = sum(each.step_s for each in found if not each.per_micro_batch)
    assert once == pytest.approx(times.gradient_reduction_s(whole, states, stage, routes))
    layer = layer_shard(costs.model, costs.training.degrees.tensor, costs.training.degrees.expert)
    each_layer = 2 * times.parameter_gather_s(layer, states, stage, routes)
    each_layer += times.micro_batch_reduction_s(layer, states, stage, routes)
    per_micro_batch = sum(each.per_micro_batch * each.seconds for each in found)
    assert per_micro_batch == pytest.approx(max(layers) * each_layer)


@pytest.mark.parametrize("recomputation", ["none", "full"])
@pytest.mark.parametrize(
    ("model", "degrees"),
    [
        ("GPT-3-175B", {"tensor_parallel": 8, "pipeline_parallel": 16}),
        ("Mixtral-8x7B", {"tensor_parallel": 2, "pipeline_parallel": 2, "expert_parallel": 8}),
        ("Llama-3-8B", {"tensor_parallel": 4, "pipeline_parallel": 2, "context_parallel": 8}),
    ],
)
def test_layer_collectives_take_what_the_cost_model_says(
    model: str, degrees: dict[str, Any], recomputation: str
) -> None:
    """With nothing of the attention to hide keys and values behind."""
    training = {**degrees, "micro_batches": 4, "recomputation": recomputation}
    costs = costs_of(training, "16x8xH100", model)
    found = [
        each for kind in (Kind.TENSOR, Kind.CONTEXT, Kind.EXPERT) for each in sent(costs, kind)
    ]
    layer = times.layer_collectives(
        costs.model, activation_shape(costs.training), costs.training.degrees, costs.cluster, 0.0
    )
    forwards = 2 if recomputation == "full" else 1
    layers = max(costs.layers_per_stage(interleaved(costs.training.degrees.pipeline, 1)))
    assert sum(each.per_micro_batch * each.seconds for each in found) == pytest.approx(
        layers * (forwards * layer.forward_s + layer.backward_s)
    )


def test_pipeline_transfers_take_what_the_problem_says() -> None:
    costs = costs_of(GPT_3)
    (hop,) = sent(costs, Kind.PIPELINE)
    assert hop.size == 2 * 2048 * 12288 // 8
    assert (hop.per_micro_batch, hop.per_step, hop.tier) == (2, 2 * 32, Tier.RACK)
    problem = costs.candidates()[0].problem
    assert times.whole_us_ns(hop.seconds) == problem.transfers[0].forward_ns[0]


def test_hops_within_and_between_nodes() -> None:
    """Four stages of one GPU on nodes of two: the middle ranks send one way inside their node and
    the other way to the next; with two chunks each, the way back to rank 0 crosses too."""
    training = {"pipeline_parallel": 4, "data_parallel": 1, "micro_batches": 8}
    found = sent(costs_of(training, "2x2xA100-80GB", "GPT-1.5B"), Kind.PIPELINE)
    assert {each.tier: each.per_micro_batch for each in found} == {Tier.NODE: 1, Tier.RACK: 1}
    chunks = costs_of({**training, "interleaving": 2}, "2x2xA100-80GB", "GPT-1.5B")
    found = sent(chunks, Kind.PIPELINE)
    assert {each.tier: each.per_micro_batch for each in found} == {Tier.NODE: 2, Tier.RACK: 2}


def test_tied_embedding_is_added_up_once() -> None:
    costs = costs_of(GPT_3)
    (added,) = sent(costs, Kind.EMBEDDING)
    padded = 51200 // 8
    assert added.size == padded * 12288 * 4
    assert (added.per_step, added.ranks, added.sent_bytes) == (1, 2, added.size)
    assert not sent(
        costs_of({"pipeline_parallel": 2, "micro_batches": 1}, "2x8xH100", "Llama-3-8B"),
        Kind.EMBEDDING,
    )


def test_context_ranks_pass_keys_and_values_on() -> None:
    """Liu et al. 2023: c - 1 steps of 2 b s/c (width of keys), and with their gradients back."""
    training = {"tensor_parallel": 4, "pipeline_parallel": 1, "context_parallel": 8}
    costs = costs_of({**training, "micro_batches": 1}, "4x8xH100", "Llama-3-8B")
    passed = next(each for each in sent(costs, Kind.CONTEXT))
    assert passed.size == 2 * 2 * (8192 // 8) * 1024 // 4
    assert passed.per_micro_batch == 3 * 7 * 32


def test_context_ranks_alone_add_up_the_gradients() -> None:
    training = {"tensor_parallel": 4, "pipeline_parallel": 1, "context_parallel": 8}
    costs = costs_of({**training, "micro_batches": 1}, "4x8xH100", "Llama-3-8B")
    assert Operation.ALL_REDUCE in {each.operation for each in sent(costs, Kind.CONTEXT)}


def test_experts_send_tokens_there_and_back() -> None:
    training = {"tensor_parallel": 2, "pipeline_parallel": 2, "expert_parallel": 8}
    own = {"micro_batches": 1, "sequence": 4096}
    costs = costs_of({**training, **own}, "8x8xH100", "Mixtral-8x7B")
    (tokens,) = sent(costs, Kind.EXPERT)
    assert tokens.size == 2 * 4096 * 4096 * 2 // 2
    assert tokens.sent_bytes == tokens.size * 7 // 8
    assert tokens.per_micro_batch == 4 * 16


def test_alone_a_gpu_sends_nothing() -> None:
    costs = costs_of({"micro_batches": 1}, "1xH100", "GPT-1.5B")
    assert collectives_of(costs, RankOrder(PIPELINE_LAST, costs.training.degrees)) == []


def test_data_ranks_last_send_gradients_farther_and_activations_nearer() -> None:
    """Four stages in a node against replicas in a node."""
    training = {"tensor_parallel": 2, "pipeline_parallel": 4, "micro_batches": 8}
    costs = costs_of(training, "4x8xA100-80GB", "GPT-7.5B")
    tiers = {
        order: [sent(costs, kind, order)[0].tier for kind in (Kind.DATA, Kind.PIPELINE)]
        for order in (PIPELINE_LAST, DATA_LAST)
    }
    assert tiers[PIPELINE_LAST] == [Tier.NODE, Tier.RACK]
    assert tiers[DATA_LAST] == [Tier.RACK, Tier.NODE]


@pytest.mark.parametrize("ranks", [2, 4, 8, 16, 64])
@pytest.mark.parametrize("stride", [1, 2, 8, 16])
def test_the_tier_that_bounds_is_the_slowest(ranks: int, stride: int) -> None:
    cluster = costs_of(
        GPT_3,
        {"gpu": "H100", "nodes": 128, "gpus_per_node": 8, "nodes_per_rack": 4}
        | {"inter_rack_bytes_per_s": 10e9},
    ).cluster
    group = Group(ranks, stride)
    rates = {tier: tier_route(cluster, tier).bytes_per_s for tier in TIERS}
    tier = ring_tier(cluster, group)
    share = 1 if tier is Tier.NODE else group.per(8)
    assert ring_route(cluster, group).bytes_per_s == share * rates[tier]
    size = 2**30
    slowest = all_to_all_tier(cluster, group, size)
    seconds = all_to_all_s(cluster, group, size)
    if ranks * stride <= 8:
        assert (tier, slowest) == (Tier.NODE, Tier.NODE)
    elif ranks * stride <= 32:
        assert (tier, slowest) == (Tier.RACK, Tier.RACK)
    else:
        assert (tier, slowest) == (Tier.ACROSS_RACKS, Tier.ACROSS_RACKS)
    assert seconds >= size * (ranks - group.per(32)) / ranks / rates[Tier.ACROSS_RACKS]
