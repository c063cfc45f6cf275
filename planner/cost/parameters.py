"""Exact parameter counts of a transformer, whole and per tensor-parallel rank."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.model import Model, Norm, NormPlacement

# Megatron-LM pads the vocabulary so that each tensor-parallel rank holds a multiple of this.
VOCABULARY_MULTIPLE = 128


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    """Parameters of a model. `active` counts only the experts that one token passes through.

    `embedding` holds the embeddings of words, learned positions and token types, `head` the output
    embedding (0 where it is tied to the word embedding) and the pooler. The norm outside the layers
    belongs to the head (after the last layer), or with post-norm layers to the embedding.
    """

    layer: int
    active_layer: int
    embedding: int
    head: int
    total: int
    active: int


def count_parameters(model: Model) -> ParameterCounts:
    """Exact counts of the model as published, without padding of the vocabulary.

    GPT (Narayanan et al. 2021): 12 h^2 + 13 h per layer. Llama: q, k, v and output projections,
    three feed-forward matrices and two norms. Both follow from the same sum over tensors.
    """
    layer = _layer_sharded(model, model.experts) + _layer_replicated(model, model.experts)
    active_layer = _layer_sharded(model, model.experts_per_token) + _layer_replicated(
        model, model.experts_per_token
    )
    word = model.vocabulary * model.hidden_size
    embedding = word + _beside_word_embedding(model)
    head = _beside_output_embedding(model) + (0 if model.tied_embeddings else word)
    return ParameterCounts(
        layer=layer,
        active_layer=active_layer,
        embedding=embedding,
        head=head,
        total=model.layers * layer + embedding + head,
        active=model.layers * active_layer + embedding + head,
    )


@dataclass(frozen=True, slots=True)
class Shard:
    """Parameters on one rank: those of experts, which fewer ranks hold copies of where there is
    expert parallelism, and all others."""

    dense: int
    expert: int = 0

    def __add__(self, other: Shard) -> Shard:
        return Shard(self.dense + other.dense, self.expert + other.expert)

    def times(self, count: int) -> Shard:
        """So many alike."""
        return Shard(count * self.dense, count * self.expert)

    @property
    def total(self) -> int:
        """All of them."""
        return self.dense + self.expert


def layer_shard(model: Model, tensor_parallel: int, expert_parallel: int = 1) -> Shard:
    """Parameters of one layer on one rank.

    Weights are split evenly over tensor ranks; norms, the router and the biases of row-parallel
    layers (attention output, second feed-forward matrix) are on every rank (Shoeybi et al. 2019,
    Megatron-LM). Expert ranks have `experts / expert_parallel` whole experts each.
    """
    all_sharded, attention = _layer_sharded(model, model.experts), _layer_sharded(model, 0)
    all_replicated = _layer_replicated(model, model.experts)
    if not model.has_router:
        return Shard(_per_rank(all_sharded, tensor_parallel) + all_replicated)
    beside_experts = _layer_replicated(model, 0)
    own = model.experts // expert_parallel
    sharded = (all_sharded - attention) // model.experts * own
    replicated = (all_replicated - beside_experts) // model.experts * own
    return Shard(
        dense=_per_rank(attention, tensor_parallel) + beside_experts,
        expert=_per_rank(sharded, tensor_parallel) + replicated,
    )


def word_embedding_shard(model: Model, tensor_parallel: int) -> int:
    """Parameters of one rank's part of the word embedding, the vocabulary padded."""
    return vocabulary_shard(model, tensor_parallel) * model.hidden_size


def vocabulary_shard(model: Model, tensor_parallel: int) -> int:
    """Vocabulary entries on one rank: padded to a multiple of 128 x tensor_parallel in all."""
    return VOCABULARY_MULTIPLE * -(-model.vocabulary // (VOCABULARY_MULTIPLE * tensor_parallel))


def embedding_shard(model: Model, tensor_parallel: int) -> int:
    """Parameters that the first stage holds beside its layers, on one rank. Only the words are
    split (Megatron-LM)."""
    return word_embedding_shard(model, tensor_parallel) + _beside_word_embedding(model)


def head_shard(model: Model, tensor_parallel: int, *, shares_embedding: bool) -> int:
    """Parameters that the last stage holds beside its layers, on one rank.

    A tied output embedding is a second copy unless the device also holds the first stage
    (`shares_embedding`). The final norm and the pooler are on every tensor-parallel rank.
    """
    copy = not (model.tied_embeddings and shares_embedding)
    word = word_embedding_shard(model, tensor_parallel) if copy else 0
    return _beside_output_embedding(model) + word


def _per_rank(count: int, ranks: int) -> int:
    return -(-count // ranks)


def _layer_sharded(model: Model, experts: int) -> int:
    hidden, query, key_value = model.hidden_size, model.query_size, model.key_value_size
    attention = hidden * (query + 2 * key_value) + query * hidden
    if model.qkv_bias:
        attention += query + 2 * key_value
    first_matrices = 2 if model.gated else 1
    expert = (first_matrices + 1) * hidden * model.ffn_hidden_size
    if model.biases:
        expert += first_matrices * model.ffn_hidden_size
    return attention + experts * expert


def _layer_replicated(model: Model, experts: int) -> int:
    output_biases = (1 + experts) * model.hidden_size if model.biases else 0
    router = model.experts * model.hidden_size if model.has_router else 0
    # One norm for all query heads and one for all key heads.
    head_norms = 2 * _norm(model, model.head_dim) if model.qk_norm else 0
    return 2 * _norm(model, model.hidden_size) + head_norms + output_biases + router


def _norm(model: Model, width: int) -> int:
    return width * (2 if model.norm is Norm.LAYERNORM else 1)


def _beside_word_embedding(model: Model) -> int:
    rows = model.max_positions + model.token_types
    normalised = model.norm_placement is NormPlacement.POST
    return rows * model.hidden_size + (_norm(model, model.hidden_size) if normalised else 0)


def _beside_output_embedding(model: Model) -> int:
    normalised = model.norm_placement is NormPlacement.PRE
    norm = _norm(model, model.hidden_size) if normalised else 0
    inputs = model.hidden_size + 1 if model.biases else model.hidden_size
    return norm + (inputs * model.hidden_size if model.pooler else 0)
