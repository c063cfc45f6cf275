"""Exact parameter counts of a transformer, whole and per tensor-parallel rank."""

from __future__ import annotations

from dataclasses import dataclass

from planner.cost.model import Model, Norm, NormPlacement, PositionEmbeddings

# Megatron-LM pads the vocabulary so that each tensor-parallel rank holds a multiple of this.
VOCABULARY_MULTIPLE = 128


@dataclass(frozen=True, slots=True)
class ParameterCounts:
    """Parameters of a model. `active` counts only the experts that one token passes through.

    `embedding` holds the word embedding and learned positions, `head` the output embedding
    (0 where it is tied to the word embedding). The norm outside the layers belongs to the head
    (after the last layer), or with post-norm layers to the embedding.
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
    embedding = word + _positions(model) + _embedding_norm(model)
    head = _final_norm(model) + (0 if model.tied_embeddings else word)
    return ParameterCounts(
        layer=layer,
        active_layer=active_layer,
        embedding=embedding,
        head=head,
        total=model.layers * layer + embedding + head,
        active=model.layers * active_layer + embedding + head,
    )


def layer_shard(model: Model, tensor_parallel: int) -> int:
    """Parameters of one layer on one tensor-parallel rank.

    Weights are split evenly; norms, the router and the biases of row-parallel layers (attention
    output, second feed-forward matrix) are on every rank (Shoeybi et al. 2019, Megatron-LM).
    """
    sharded = _layer_sharded(model, model.experts)
    return _per_rank(sharded, tensor_parallel) + _layer_replicated(model, model.experts)


def word_embedding_shard(model: Model, tensor_parallel: int) -> int:
    """Parameters of one rank's part of the word embedding, the vocabulary padded."""
    return vocabulary_shard(model, tensor_parallel) * model.hidden_size


def vocabulary_shard(model: Model, tensor_parallel: int) -> int:
    """Vocabulary entries on one rank: padded to a multiple of 128 x tensor_parallel in all."""
    return VOCABULARY_MULTIPLE * -(-model.vocabulary // (VOCABULARY_MULTIPLE * tensor_parallel))


def embedding_shard(model: Model, tensor_parallel: int) -> int:
    """Parameters that the first stage holds beside its layers, on one rank."""
    beside_words = _positions(model) + _embedding_norm(model)
    return word_embedding_shard(model, tensor_parallel) + beside_words


def head_shard(model: Model, tensor_parallel: int, *, shares_embedding: bool) -> int:
    """Parameters that the last stage holds beside its layers, on one rank.

    A tied output embedding is a second copy unless the device also holds the first stage
    (`shares_embedding`).
    """
    copy = not (model.tied_embeddings and shares_embedding)
    return _final_norm(model) + (word_embedding_shard(model, tensor_parallel) if copy else 0)


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
    return 2 * _norm(model) + output_biases + router


def _norm(model: Model) -> int:
    return model.hidden_size * (2 if model.norm is Norm.LAYERNORM else 1)


def _embedding_norm(model: Model) -> int:
    return _norm(model) if model.norm_placement is NormPlacement.POST else 0


def _final_norm(model: Model) -> int:
    return _norm(model) if model.norm_placement is NormPlacement.PRE else 0


def _positions(model: Model) -> int:
    learned = model.position_embeddings is PositionEmbeddings.LEARNED
    return model.max_positions * model.hidden_size if learned else 0
