"""From a Hugging Face `config.json` to the `model` and `training` of a request.

Field names and defaults are those of the configuration classes of transformers 5
(`transformers/models/*/configuration_*.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from client.errors import InputError
from client.importers.imported import Imported

Config = Mapping[str, Any]

PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def from_hf_config(config: Config) -> Imported:
    """The model of a configuration, with its precision.

    Raises `InputError` for an architecture that is not known or has parts that a model document
    cannot say.
    """
    kind = config.get("model_type")
    reader = READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise InputError(
            "model_type",
            f"{kind!r} is not known." if kind else "is missing.",
            f"Known: {', '.join(sorted(READERS))}. Write the `model` yourself for another one, or "
            "extract its operators with PyTorch.",
        )
    notes = [
        "Add `cluster`, and `training.micro_batches` or `training.global_batch_size`.",
    ]
    model = reader(_Fields(config), notes)
    training = {}
    given = config.get("dtype", config.get("torch_dtype"))
    precision = PRECISIONS.get(str(given).removeprefix("torch."))
    if precision is not None:
        training["precision"] = precision
    notes.append(
        f"The sequence is the longest that the model takes, {model['sequence']}; give "
        "`training.sequence` for another one."
    )
    name = config.get("_name_or_path") or None
    named = {"name": name} if isinstance(name, str) else {}
    return Imported({"model": {**named, **model}, "training": training}, notes)


class _Fields:
    """Fields of a configuration, which may be missing, null, or of the wrong kind."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def number(self, name: str, default: int | None = None) -> int:
        """A positive whole number; without default it has to be there."""
        value = self._config.get(name)
        if value is None:
            value = default
        if value is None:
            raise InputError(name, "is missing.", "Give the model's own config.json.")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(name, f"{value!r} is no positive whole number.", "Correct it.")
        return value

    def truth(self, name: str, default: bool) -> bool:
        """True or false."""
        value = self._config.get(name)
        return default if value is None else bool(value)

    def text(self, name: str, default: str) -> str:
        """A name."""
        value = self._config.get(name)
        return default if value is None else str(value)

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self._config.get(name) is not None

    def one_of(self, name: str, default: str, *, known: tuple[str, ...]) -> None:
        """Refuse a value that the model document has no words for."""
        value = self.text(name, default)
        if value not in known:
            raise InputError(
                name,
                f"{value!r} cannot be said in a model document.",
                f"Known: {', '.join(known)}.",
            )


Reader = Callable[[_Fields, list[str]], dict[str, Any]]

SWISH = ("silu", "swish")
GELU = ("gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "relu")


def _sizes(fields: _Fields) -> dict[str, Any]:
    """What most architectures call by the same names."""
    return {
        "layers": fields.number("num_hidden_layers"),
        "hidden_size": fields.number("hidden_size"),
        "heads": fields.number("num_attention_heads"),
        "ffn_hidden_size": fields.number("intermediate_size"),
        "vocabulary": fields.number("vocab_size"),
        "sequence": fields.number("max_position_embeddings"),
    }


def _llama_like(
    fields: _Fields, notes: list[str], *, kv_heads: int | None = None, slides: bool = True
) -> dict[str, Any]:
    """RMSNorm, rotary positions, gated feed-forward, grouped queries.

    `kv_heads` and `slides` are the architecture's defaults: as many key and value heads unless it
    is None (then as many as heads), and whether a sliding window is used where there is one.
    """
    fields.one_of("hidden_act", "silu", known=SWISH)
    model = _sizes(fields)
    model["kv_heads"] = fields.number("num_key_value_heads", kv_heads or model["heads"])
    head_dim = model["hidden_size"] // model["heads"]
    if fields.has("head_dim") and fields.number("head_dim") != head_dim:
        model["head_dim"] = fields.number("head_dim")
    model["gated"] = True
    if fields.truth("tie_word_embeddings", False):
        model["tied_embeddings"] = True
    attention, feed_forward = (fields.truth(name, False) for name in ("attention_bias", "mlp_bias"))
    if attention and feed_forward:
        model["biases"] = True
    elif attention or feed_forward:
        raise InputError(
            "attention_bias" if attention else "mlp_bias",
            "is true and the other of the two is not, which a model document cannot say.",
            "Write the `model` yourself, with `qkv_bias` or `biases` as what comes closest.",
        )
    if fields.has("sliding_window") and fields.truth("use_sliding_window", slides):
        notes.append("Its sliding window is left out: every token attends to all earlier ones.")
    return model


def _llama(fields: _Fields, notes: list[str]) -> dict[str, Any]:
    return _llama_like(fields, notes)


def _mistral(fields: _Fields, notes: list[str]) -> dict[str, Any]:
    return _llama_like(fields, notes, kv_heads=8)


def _mixtral(fields: _Fields, notes: list[str]) -> dict[str, Any]:
    return _llama_like(fields, notes, kv_heads=8) | {
        "experts": fields.number("num_local_experts", 8),
        "experts_per_token": fields.number("num_experts_per_tok", 2),
    }


def _qwen2(fields: _Fields, notes: list[str]) -> dict[str, Any]:
    model = _llama_like(fields, notes, kv_heads=32, slides=False)
    return model | {"qkv_bias": True}


def _qwen3(fields: _Fields, notes: list[str]) -> dict[str, Any]:
    model = _llama_like(fields, notes, kv_heads=32, slides=False) | {"qk_norm": True}
    # Heads of 128 wherever nothing else is said.
    head_dim = fields.number("head_dim", 128)
    if head_dim * model["heads"] != model["hidden_size"]:
        model["head_dim"] = head_dim
    return model


def _gpt2(fields: _Fields, notes: list[str]) -> dict[str, Any]:
    fields.one_of("activation_function", "gelu_new", known=GELU)
    hidden = fields.number("n_embd", 768)
    positions = fields.number("n_positions", 1024)
    return {
        "layers": fields.number("n_layer", 12),
        "hidden_size": hidden,
        "heads": fields.number("n_head", 12),
        "ffn_hidden_size": fields.number("n_inner", 4 * hidden),
        "vocabulary": fields.number("vocab_size", 50257),
        "sequence": positions,
        "tied_embeddings": fields.truth("tie_word_embeddings", True),
    }


def _bert(fields: _Fields, notes: list[str]) -> dict[str, Any]:
    fields.one_of("hidden_act", "gelu", known=GELU)
    fields.one_of("position_embedding_type", "absolute", known=("absolute",))
    if fields.truth("is_decoder", False):
        raise InputError("is_decoder", "is true: BERT is read as an encoder.", "Remove it.")
    notes.append("What only BERT's pre-training has beside the pooler is left out.")
    return _sizes(fields) | {
        "architecture": "encoder",
        "token_types": fields.number("type_vocab_size", 2),
        "pooler": True,
    }


def _gpt_neox(fields: _Fields, notes: list[str]) -> dict[str, Any]:
    fields.one_of("hidden_act", "gelu", known=GELU)
    if fields.truth("use_parallel_residual", True):
        notes.append(
            "Attention and feed-forward are one after the other here, in the model side by side."
        )
    model = _sizes(fields) | {
        "position_embeddings": "rotary",
        "tied_embeddings": fields.truth("tie_word_embeddings", False),
    }
    if not fields.truth("attention_bias", True):
        raise InputError(
            "attention_bias",
            "is false while the feed-forward has biases, which a model document cannot say.",
            "Write the `model` yourself, with `qkv_bias: false` as what comes closest.",
        )
    return model


READERS: Mapping[str, Reader] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gpt2": _gpt2,
    "bert": _bert,
    "gpt_neox": _gpt_neox,
}
