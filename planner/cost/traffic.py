"""Bytes that operators other than matrix products move through device memory.

Counted operator by operator, each input read and each output written once. Element-wise operators
are fused as Megatron-LM fuses them: bias with activation, bias with dropout and residual addition,
scale and mask with softmax.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.memory import LOGIT_BYTES, ActivationShape, ceil_div
from planner.cost.model import Model, PositionEmbeddings
from planner.cost.parameters import vocabulary_shard

MASK_BYTES = 1


@dataclass(frozen=True, slots=True)
class Traffic:
    """Of one micro-batch on one GPU, in bytes. `recomputable` is the part of the forward that
    selective recomputation repeats."""

    forward: int
    backward: int
    recomputable: int = 0


def layer_traffic(model: Model, shape: ActivationShape) -> Traffic:
    """One transformer layer; e is the size of an element, in bytes.

    Outside the tensor-parallel regions, per token and hidden unit: two norms (2 e each; backward
    3 e), two residual additions with dropout (3 e and the mask; backward the mask and 2 e, and 3 e
    for the sum of gradients), and in a mixture of experts the tokens put in the order of the
    experts and back (4 e for each expert chosen). Inside: queries, keys, values and the attention
    output put in the order of heads (2 e), norms of queries and keys where there are any, rotary
    positions (2 e), and the activation function (2 e, backward 3 e; gated 3 e and 5 e). Scores,
    unless flash attention keeps them on chip.
    """
    element, dropout = shape.element_bytes, MASK_BYTES if model.dropout else 0
    chosen = model.experts_per_token if model.has_router else 0
    whole_forward = 10 * element + 2 * dropout + 4 * element * chosen
    whole_backward = 12 * element + 4 * element * chosen
    if model.dropout:
        whole_backward += 4 * element + 2 * dropout
    in_heads = 2 * element * (2 * model.query_size + 2 * model.key_value_size)
    if model.position_embeddings is PositionEmbeddings.ROTARY:
        in_heads += 2 * element * (model.query_size + model.key_value_size)
    normed = element * (model.query_size + model.key_value_size) if model.qk_norm else 0
    activated = shape.expert_width(model)
    scores = Traffic(0, 0) if shape.flash_attention else _scores_traffic(model, shape)
    hidden = model.hidden_size
    activation_forward, activation_backward = (3, 5) if model.gated else (2, 3)
    forward = shape.bytes_of(
        hidden * whole_forward,
        in_heads + 2 * normed + activation_forward * element * activated,
    )
    backward = shape.bytes_of(
        hidden * whole_backward,
        in_heads + 3 * normed + activation_backward * element * activated,
    )
    return Traffic(
        forward + scores.forward, backward + scores.backward, recomputable=scores.forward
    )


def head_traffic(model: Model, shape: ActivationShape) -> Traffic:
    """Final norm, and the cross-entropy of fp32 logits: converted, their maximum found,
    exponentiated in place; backward scaled in place and converted."""
    element = shape.element_bytes
    vocabulary = shape.tokens * vocabulary_shard(model, shape.tensor_parallel)
    norm = shape.bytes_of(2 * element * model.hidden_size, 0)
    norm_backward = shape.bytes_of(3 * element * model.hidden_size, 0)
    return Traffic(
        norm + vocabulary * (element + 4 * LOGIT_BYTES),
        norm_backward + vocabulary * (element + 2 * LOGIT_BYTES),
    )


def _scores_traffic(model: Model, shape: ActivationShape) -> Traffic:
    """Scores written, softmax (2 e), dropout (2 e and the mask), read for the product with values;
    backward both products read probabilities or write their gradient (4 e), softmax 3 e, dropout
    likewise. The matrix products are limited by this traffic, as heads are narrow."""
    element = shape.element_bytes
    dropout = 2 * element + MASK_BYTES if model.dropout else 0
    scores = ceil_div(shape.tokens * shape.sequence * model.heads, shape.tensor_parallel)
    return Traffic(scores * (4 * element + dropout), scores * (7 * element + dropout))
