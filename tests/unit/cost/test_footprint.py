"""The memory of pipeline ranks: what counts where, and that parts add up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost.blocks import activation_shape
from planner.cost.footprint import RankFootprint, footprints, layer_workspace_bytes
from planner.cost.placement import interleaved
from planner.cost.spec import read_cost_model
from planner.cost.training import Recomputation

GPT = {
    "layers": 24,
    "hidden_size": 1024,
    "heads": 16,
    "vocabulary": 51200,
    "sequence": 2048,
}


def ranks_of(
    model: dict[str, Any] | str = "GPT-7.1B", cluster: str = "4x8xA100-80GB", **training: Any
) -> tuple[RankFootprint, ...]:
    costs = read_cost_model(model, cluster, {"micro_batches": 32, **training})
    chunks = costs.training.interleaving or 1
    placement = interleaved(costs.training.degrees.pipeline, chunks)
    return footprints(costs, chunks, costs.layers_per_stage(placement))


@settings(deadline=None, max_examples=60)
@given(
    pipeline=st.sampled_from([1, 2, 4, 8]),
    tensor=st.sampled_from([1, 2, 4]),
    chunks=st.sampled_from([1, 2, 3]),
    zero_stage=st.integers(0, 3),
    recomputation=st.sampled_from(["none", "selective", "full"]),
    flash=st.booleans(),
    precision=st.sampled_from(["bf16", "fp16", "fp32"]),
    micro_batches=st.integers(1, 40),
)
def test_parts_add_up(
    pipeline: int,
    tensor: int,
    chunks: int,
    zero_stage: int,
    recomputation: str,
    flash: bool,
    precision: str,
    micro_batches: int,
) -> None:
    ranks = ranks_of(
        GPT,
        pipeline_parallel=pipeline,
        tensor_parallel=tensor,
        interleaving=chunks if pipeline > 1 else 1,
        zero_stage=zero_stage,
        recomputation=recomputation,
        flash_attention=flash,
        precision=precision,
        micro_batches=micro_batches,
    )
    for rank in ranks:
        assert rank.static_bytes == (
            rank.parameters_bytes + rank.gradients_bytes + rank.optimizer_bytes
        )
        on_top = max(rank.logits_bytes, rank.workspace_bytes)
        assert (
            rank.total_bytes - rank.reserved_bytes
            == rank.peak_allocated_bytes
            == (
                rank.static_bytes
                + rank.gathered_parameters_bytes
                + rank.activations_bytes
                + rank.embedding_activations_bytes
                + on_top
                + rank.communication.total_bytes
            )
        )
        assert rank.headroom_bytes == rank.limit_bytes - rank.total_bytes
        assert (rank.embedding_activations_bytes > 0) == (rank.rank == 0)
        assert (rank.logits_bytes > 0) == (rank.rank == pipeline - 1)
    assert sum(rank.layers for rank in ranks) == GPT["layers"]


def test_each_rank_has_its_own_layers() -> None:
    """Uneven stages are not averaged: the activations of rank r are those of its own layers."""
    layers = [1, 2, 2, 3]
    model = {**GPT, "layers": 8}
    uneven = ranks_of(model, "4xA100-80GB", layers_per_stage=layers)
    even = ranks_of(model, "4xA100-80GB", layers_per_stage=[2] * 4)
    for own, other, count in zip(uneven, even, layers, strict=True):
        assert own.activations_bytes == other.activations_bytes * count // 2
        layer = 12 * 1024**2 + 13 * 1024
        assert own.parameters - other.parameters == (count - 2) * layer


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
def test_states_shrink_with_zero(zero_stage: int) -> None:
    """16 replicas of one stage: 18 bytes, 6 + 12/16, 2 + 16/16, 18/16."""
    each = (18, 6 + 12 / 16, 2 + 16 / 16, 18 / 16)[zero_stage]
    (rank,) = ranks_of("GPT-1.5B", "2x8xA100-80GB", pipeline_parallel=1, zero_stage=zero_stage)
    assert rank.static_bytes == pytest.approx(each * rank.parameters, rel=1e-6)


def test_zero_gathers_what_is_largest() -> None:
    """A layer in the middle; the embedding and the output layer where they are, if larger."""
    model = {**GPT, "vocabulary": 256_000}
    first, middle, last = ranks_of(
        model, "6xA100-80GB", pipeline_parallel=3, data_parallel=2, zero_stage=3
    )
    layer, word = 12 * 1024**2 + 13 * 1024, 256_000 * 1024
    assert middle.gathered_parameters_bytes == 2 * layer
    assert first.gathered_parameters_bytes == last.gathered_parameters_bytes == 2 * word
    assert middle.communication.gradient_bytes == 4 * layer
    assert first.communication.gradient_bytes == 4 * word
    (alone,) = ranks_of(GPT, "1xA100-80GB", zero_stage=3)
    assert alone.gathered_parameters_bytes == alone.communication.gradient_bytes == 0


def test_experts_count_where_they_are() -> None:
    """Twice the experts double what is stored of them; activations follow the chosen ones."""
    model = {**GPT, "experts": 8, "experts_per_token": 2}
    more = {**model, "experts": 16}
    given = {"pipeline_parallel": 1, "data_parallel": 8}
    (few,) = ranks_of(model, "8xA100-80GB", **given)
    (many,) = ranks_of(more, "8xA100-80GB", **given)
    (split,) = ranks_of(more, "8xA100-80GB", **given, expert_parallel=2)
    assert few.activations_bytes == many.activations_bytes == split.activations_bytes
    expert = 2 * 4 * 1024**2 + 5 * 1024
    router = 8 * 1024
    assert many.parameters - few.parameters == 24 * (8 * expert + router)
    assert many.parameters - split.parameters == 24 * 8 * expert


def test_expert_states_are_shared_by_the_ranks_that_hold_them() -> None:
    """Eight replicas, experts over four: their optimizer states are halved, others divided by 8."""
    model = {**GPT, "layers": 1, "experts": 4, "experts_per_token": 1}
    given = {"pipeline_parallel": 1, "data_parallel": 8, "zero_stage": 1}
    (rank,) = ranks_of(model, "8xA100-80GB", **given, expert_parallel=4)
    expert = 2 * 4 * 1024**2 + 5 * 1024
    dense = rank.parameters - expert
    assert rank.optimizer_bytes == pytest.approx(12 * (dense / 8 + expert / 2), abs=2)


def test_logits_at_the_loss() -> None:
    """fp32 logits, a bf16 copy and two inputs of s b h; single precision has no copy."""
    (rank,) = ranks_of(GPT, "1xA100-80GB", micro_batch_size=2)
    assert rank.logits_bytes == 2 * 2048 * (6 * 51200 + 2 * 2 * 1024)
    assert rank.peak_is_loss
    (single,) = ranks_of(GPT, "1xA100-80GB", micro_batch_size=2, precision="fp32")
    assert single.logits_bytes == 2 * 2048 * (4 * 51200 + 2 * 4 * 1024)


def test_workspace_of_a_backward() -> None:
    """In bytes per token and hidden unit of a GPT layer: gradients of the stream (2) and of the
    inner activation (8); with everything rebuilt 34 - 2 more; the scores of selective recomputation
    at the attention, when the feed-forward's 2 + 2 + 16 are gone and 2 + 8 of gradients are there.
    """
    model = {**GPT, "sequence": 8192, "max_positions": 8192}
    costs = read_cost_model(model, "1xA100-80GB", {"micro_batches": 1, "flash_attention": False})
    plain = activation_shape(costs.training)
    unit = 8192 * 1024
    scores = 16 * 8192**2

    def workspace(recomputation: Recomputation) -> int:
        return layer_workspace_bytes(costs.model, plain, recomputation)

    attention = (2 + 8 - 20) * unit + 2 * scores
    assert workspace(Recomputation.NONE) == max(10 * unit, attention)
    assert workspace(Recomputation.SELECTIVE) == attention + 5 * scores
    assert workspace(Recomputation.FULL) == 32 * unit + 5 * scores + attention


def test_a_measured_workspace_counts() -> None:
    profile = {"layer": {"backward_workspace_bytes": 123_456_789}}
    ranks = ranks_of(GPT, "4xA100-80GB", profile=profile)
    assert {rank.workspace_bytes for rank in ranks} == {123_456_789}


def test_a_measured_room_for_activations_is_the_limit() -> None:
    ranks = ranks_of(GPT, "4xA100-80GB", profile={"activation_memory_bytes": 10**9})
    for rank in ranks:
        assert rank.limit_bytes == rank.static_bytes + 10**9 + rank.reserved_bytes


def test_communication_buffers() -> None:
    """Boundary activations of 2 s b h: three in the middle of a pipeline, two and one at its ends,
    four with interleaving; whole sequences; keys and values; tokens of experts."""
    boundary = 2 * 2048 * 1024
    one_chunk = ranks_of(GPT, "4xA100-80GB")
    assert [rank.communication.total_bytes for rank in one_chunk] == [
        count * boundary for count in (2, 3, 3, 1)
    ]
    chunks = ranks_of(GPT, "4xA100-80GB", interleaving=2)
    assert {rank.communication.total_bytes for rank in chunks} == {4 * boundary}
    (sequence,) = ranks_of(GPT, "4xA100-80GB", tensor_parallel=4)
    assert sequence.communication.sequence_bytes == 2 * boundary
    (context,) = ranks_of(GPT, "4xA100-80GB", context_parallel=4)
    assert context.communication.context_bytes == 4 * 2 * boundary // 4
    model = {**GPT, "experts": 8, "experts_per_token": 2}
    (experts,) = ranks_of(
        model, "4xA100-80GB", data_parallel=4, pipeline_parallel=1, expert_parallel=4
    )
    assert experts.communication.expert_bytes == 2 * boundary
