"""Memory formulas: model states per parameter and activations per micro-batch, in bytes.

Sources: Korthikanti et al. 2022 (Reducing Activation Recomputation, arXiv 2205.05198),
Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054), Qi et al. 2024 (Zero Bubble, arXiv 2401.10241),
Megatron-LM's documentation of its distributed optimizer. Symbols as there: s sequence, b
micro-batch size, h hidden size, a heads, t tensor-parallel degree, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from planner.cost.degrees import Degrees
from planner.cost.model import Model, NormPlacement
from planner.cost.parameters import Shard, vocabulary_shard

TOKEN_ID_BYTES = 8
LOGIT_BYTES = 4


def ceil_div(dividend: int, divisor: int) -> int:
    """Quotient rounded up."""
    return -(-dividend // divisor)


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes that one parameter takes: itself, its gradient, and optimizer states (with the fp32
    copy of the parameter, and of the gradient where it is kept twice)."""

    parameter: int
    gradient: int
    optimizer: int

    def on_rank(self, shard: Shard, zero_stage: int, degrees: Degrees) -> int:
        """Bytes of a rank's parameters with their gradients and optimizer states.

        ZeRO stage 1 splits optimizer states over the ranks that hold the same parameters, 2
        gradients as well, 3 parameters as well (ZeRO, section 5): with 2 + 2 + 12 bytes and d
        ranks 4 + 12/d, 2 + 14/d and 16/d.
        """
        return sum(self.by_kind(shard, zero_stage, degrees))

    def by_kind(self, shard: Shard, zero_stage: int, degrees: Degrees) -> tuple[int, int, int]:
        """The same apart: of parameters, of gradients, of optimizer states."""

        def size(each: int, splits_from: int) -> int:
            if zero_stage < splits_from:
                return shard.total * each
            return ceil_div(shard.dense * each, degrees.replicas) + ceil_div(
                shard.expert * each, degrees.expert_replicas
            )

        return size(self.parameter, 3), size(self.gradient, 2), size(self.optimizer, 1)

    @property
    def total(self) -> int:
        """Bytes per parameter without ZeRO."""
        return self.parameter + self.gradient + self.optimizer


def state_bytes(precision: str, gradient_precision: str, optimizer: str) -> StateBytes:
    """Bytes per parameter.

    Adam keeps two fp32 moments, momentum SGD one. Half precision keeps an fp32 copy of the
    parameters. With fp32 gradients bf16 takes 2 + 4 + 12 = 18 bytes and fp16, which keeps half
    precision gradients beside the fp32 ones, 2 + 2 + 16 = 20 (Megatron-LM, distributed
    optimizer); with gradients of the parameters' precision both take 2 + 2 + 12 = 16 (ZeRO,
    section 3.1); fp32 takes 4 + 4 + 8 = 16.
    """
    moments = {"adam": 8, "sgd_momentum": 4, "sgd": 0}[optimizer]
    if precision == "fp32":
        return StateBytes(4, 4, moments)
    if gradient_precision == "same":
        return StateBytes(2, 2, 4 + moments)
    if precision == "bf16":
        return StateBytes(2, 4, 4 + moments)
    return StateBytes(2, 2, 4 + 4 + moments)


@dataclass(frozen=True, slots=True)
class ActivationShape:
    """What the size of activations depends on beside the model.

    `expert_load` is how many more tokens than the average the experts of a rank process.
    """

    sequence: int
    micro_batch_size: int
    tensor_parallel: int
    sequence_parallel: bool
    element_bytes: int
    flash_attention: bool
    context_parallel: int = 1
    expert_load: float = 1.0

    @property
    def tokens(self) -> int:
        """s b, the tokens of one micro-batch; of them a context rank's share."""
        return self.sequence * self.micro_batch_size // self.context_parallel

    def expert_width(self, model: Model) -> int:
        """Feed-forward units that a token passes through, over all experts chosen for it."""
        width = model.experts_per_token * model.ffn_hidden_size
        return math.ceil(width * self.expert_load) if model.has_router else width

    @property
    def unsplit_ranks(self) -> int:
        """Ranks that share what tensor parallelism alone replicates: t or 1."""
        return self.tensor_parallel if self.sequence_parallel else 1

    def bytes_of(self, whole: int, split: int) -> int:
        """Bytes per rank of `whole` bytes per token outside the tensor-parallel regions and
        `split` bytes per token inside them."""
        return ceil_div(self.tokens * whole, self.unsplit_ranks) + ceil_div(
            self.tokens * split, self.tensor_parallel
        )


def layer_activation_bytes(model: Model, shape: ActivationShape) -> int:
    """Stored by one layer's forward for its backward, without recomputation.

    Counted tensor by tensor as in Korthikanti et al., section 4.1. For a GPT layer in 16 bits:
    s b h (10 + 24/t + 5 a s/(h t)), with sequence parallelism s b h/t (34 + 5 a s/h); the
    feed-forward part generalises to 18 + 4 ffn/h (Megatron-LM's estimator). A gated feed-forward
    keeps gate, up and their product (6 ffn/h), grouped-query attention smaller keys and values,
    and models without dropout no masks. Flash attention does not store the 5 a s^2 b part.
    """
    core = 0 if shape.flash_attention else attention_core_bytes(model, shape)
    return _layer_without_core_bytes(model, shape) + core


def attention_core_bytes(model: Model, shape: ActivationShape) -> int:
    """Softmax output, dropout mask and dropout output: 5 a s^2 b / t in 16 bits with dropout."""
    element = shape.element_bytes
    per_score = 2 * element + 1 if model.dropout else element
    return ceil_div(shape.tokens * shape.sequence * model.heads * per_score, shape.tensor_parallel)


def layer_mask_bytes(model: Model, shape: ActivationShape, *, with_scores: bool) -> int:
    """The part of `layer_activation_bytes` that dropout masks take: 2 s b h, and a s^2 b / t of
    stored scores (Korthikanti et al., section 4.1)."""
    if not model.dropout:
        return 0
    scores = shape.tokens * shape.sequence * model.heads if with_scores else 0
    return shape.bytes_of(2 * model.hidden_size, 0) + ceil_div(scores, shape.tensor_parallel)


def layer_input_bytes(model: Model, shape: ActivationShape) -> int:
    """All that full recomputation keeps of a layer: its input, 2 s b h in 16 bits."""
    return shape.bytes_of(shape.element_bytes * model.hidden_size, 0)


def layer_weight_grad_bytes(model: Model, shape: ActivationShape) -> int:
    """What stays from the end of a layer's backward for the input to that for the weights.

    Inputs and output gradients of its linear layers: for a GPT layer 32 s b h of the 34 s b h in
    16 bits (Zero Bubble, table 1), the rest being dropout masks. Inputs of column-parallel and
    output gradients of row-parallel layers are split by sequence parallelism only.
    """
    hidden, chosen = model.hidden_size, model.experts_per_token
    width = shape.expert_width(model)
    whole = 2 * hidden * (1 + chosen)
    split = 2 * model.query_size + 2 * model.key_value_size
    split += 3 * width if model.gated else 2 * width
    element = shape.element_bytes
    return shape.bytes_of(element * whole, element * split)


def embedding_activation_bytes(model: Model, shape: ActivationShape) -> int:
    """Token numbers (8 s b) and the embedding's dropout mask (s b h), as Megatron-LM counts, and
    the input of the norm that post-norm models have here."""
    kept = model.hidden_size if model.dropout else 0
    if model.norm_placement is NormPlacement.POST:
        kept += shape.element_bytes * model.hidden_size
    return shape.tokens * TOKEN_ID_BYTES + shape.bytes_of(kept, 0)


def embedding_exact_bytes(model: Model, shape: ActivationShape) -> int:
    """The part of it that is numbers of tokens and masks."""
    mask = shape.bytes_of(model.hidden_size, 0) if model.dropout else 0
    return shape.tokens * TOKEN_ID_BYTES + mask


def embedding_weight_grad_bytes(model: Model, shape: ActivationShape) -> int:
    """Token numbers and the gradient of the embedding's output."""
    gradient = shape.bytes_of(shape.element_bytes * model.hidden_size, 0)
    return shape.tokens * TOKEN_ID_BYTES + gradient


def head_activation_bytes(model: Model, shape: ActivationShape) -> int:
    """Inputs of the final norm and of the output layer, and fp32 logits: 4 s b h (1 + V/h) / t
    in 16 bits (Korthikanti et al., section 4.3). Post-norm models have no final norm."""
    inputs_kept = 2 if model.norm_placement is NormPlacement.PRE else 1
    inputs = shape.bytes_of(inputs_kept * shape.element_bytes * model.hidden_size, 0)
    return inputs + shape.tokens * LOGIT_BYTES * vocabulary_shard(model, shape.tensor_parallel)


def logits_copy_bytes(model: Model, shape: ActivationShape) -> int:
    """Beside the fp32 logits, which the cross-entropy turns into their gradient in place, their
    copy in the training precision: the output layer's result in the forward, its gradient in the
    backward (Megatron-LM's vocabulary-parallel cross-entropy)."""
    if shape.element_bytes >= LOGIT_BYTES:
        return 0
    return shape.tokens * shape.element_bytes * vocabulary_shard(model, shape.tensor_parallel)


def head_weight_grad_bytes(model: Model, shape: ActivationShape) -> int:
    """Input of the output layer and the gradient of the logits in the training precision."""
    inputs = shape.bytes_of(shape.element_bytes * model.hidden_size, 0)
    vocabulary = vocabulary_shard(model, shape.tensor_parallel)
    return inputs + shape.tokens * shape.element_bytes * vocabulary


def boundary_bytes(model: Model, shape: ActivationShape) -> int:
    """Sent from one stage to the next by each GPU: 2 s b h in 16 bits, split over the tensor group
    by sequence parallelism."""
    return layer_input_bytes(model, shape)


def _layer_without_core_bytes(model: Model, shape: ActivationShape) -> int:
    hidden, chosen = model.hidden_size, model.experts_per_token
    element, width = shape.element_bytes, shape.expert_width(model)
    masks = 2 * hidden if model.dropout else 0
    # Two norm inputs, the attention input and the feed-forward input.
    whole = 4 * element * hidden + masks
    if model.has_router:
        # The tokens of each chosen expert in its order, and its output, which the router weighs.
        whole += chosen * 2 * element * hidden
    kept_ffn = 3 * width if model.gated else 2 * width
    # Queries and the attention output, keys and values.
    split = element * (2 * model.query_size + 2 * model.key_value_size + kept_ffn)
    if model.qk_norm:
        # Queries and keys before their norms.
        split += element * (model.query_size + model.key_value_size)
    return shape.bytes_of(whole, split)
