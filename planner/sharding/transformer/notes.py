"""What was assumed about a transformer and left out of its graph, for the reader of an answer."""

from __future__ import annotations

from planner.cost.model import Model, NormPlacement, PositionEmbeddings
from planner.cost.notes import Note
from planner.sharding.training import ShardingTraining
from planner.sharding.transformer.builder import padded_vocabulary


def transformer_notes(
    model: Model,
    training: ShardingTraining,
    *,
    layers: int,
    batch: int,
    batch_given: bool,
    sequence: int,
    devices: int,
    embeddings: bool,
) -> tuple[Note, ...]:
    """One note per assumption: what, its value, and what it rests on."""
    notes = [
        _note(
            "model",
            f"{layers} {'layer' if layers == 1 else 'layers'} of {model.name}",
            model.source or "Given.",
        ),
        _note(
            "batch",
            f"{batch} samples of {sequence} tokens over all devices, per micro-batch",
            "Given." if batch_given else "Default: the least multiple of the devices from 8.",
        ),
        _note(
            "layer",
            f"norms {_norms(model)}, query, key and value in one projection",
            "Fused as in Megatron-LM: the columns of each key-value group lie together.",
        ),
        _note(
            "attention",
            _attention(model, training),
            "`training.flash_attention`; default true (FlashAttention-2, Dao 2023).",
        ),
        _note(
            "dropout",
            "masks counted" if training.dropout else "none",
            "`training.dropout`; default false.",
        ),
    ]
    if model.position_embeddings is PositionEmbeddings.ROTARY:
        notes.append(
            _note(
                "rotary positions",
                "part of the attention",
                "They have no parameters, and a backward keeps nothing for them.",
            )
        )
    if model.qk_norm:
        notes.append(
            _note(
                "norms of queries and keys",
                "left out",
                "Two weights of head_dim per layer; the queries and keys that their backward "
                "would keep as well are not counted.",
            )
        )
    if embeddings:
        notes.append(_vocabulary(model, devices))
        if model.token_types or model.pooler:
            notes.append(
                _note(
                    "token types and pooler",
                    "left out",
                    "Small beside the rest: 0.3 % of BERT-Large's parameters.",
                )
            )
    else:
        notes.append(
            _note("embedding, output layer and loss", "left out", "`embeddings`; default false.")
        )
    return tuple(notes)


def _note(what: str, value: str, basis: str) -> Note:
    return {"what": what, "value": value, "basis": basis}


def _norms(model: Model) -> str:
    pre_norm = model.norm_placement is NormPlacement.PRE
    return "before each block" if pre_norm else "after each residual addition"


def _attention(model: Model, training: ShardingTraining) -> str:
    reach = "earlier tokens" if model.causal else "all tokens"
    if not training.flash_attention:
        return f"to {reach}, scores and probabilities are operators of their own"
    return f"to {reach}, one operator that stores no scores"


def _vocabulary(model: Model, devices: int) -> Note:
    padded = padded_vocabulary(model.vocabulary, devices)
    value = f"{model.vocabulary}"
    if padded != model.vocabulary:
        value += f", padded to {padded}"
    return _note(
        "vocabulary",
        value,
        "Megatron-LM pads it to a multiple of 128; here of 128 and the number of devices.",
    )
