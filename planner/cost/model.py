"""The model document: the shape of a transformer, read into a `Model`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, ValidationError

from planner.cost.model_presets import MODEL_ALIASES, MODEL_PRESETS
from planner.cost.presets import find_preset
from planner.documents import Document, PositiveWhole, WholeNumber, spec_error_from
from planner.errors import SpecError

Path = tuple[str | int, ...]

LARGEST_LAYERS = 1024


class Norm(StrEnum):
    """Layer normalisation (scale and shift) or root-mean-square normalisation (scale)."""

    LAYERNORM = "layernorm"
    RMSNORM = "rmsnorm"


class NormPlacement(StrEnum):
    """Before each block with one more after the last layer (GPT), or after each residual addition
    with one more after the embedding (BERT)."""

    PRE = "pre"
    POST = "post"


class PositionEmbeddings(StrEnum):
    """Only `LEARNED` has parameters."""

    LEARNED = "learned"
    ROTARY = "rotary"
    NONE = "none"


class ModelDocument(Document):
    """Sizes of a decoder-only or encoder-only transformer; a `preset` gives those left out.

    `gated: true` defaults to RMSNorm, no biases and rotary positions (the Llama family);
    otherwise LayerNorm, biases and learned positions (the GPT family).
    """

    preset: str | None = None
    name: str | None = None
    architecture: Literal["decoder", "encoder"] | None = Field(
        default=None,
        description="A decoder's tokens attend to earlier ones (default), an encoder's to all.",
    )
    layers: Annotated[PositiveWhole, Field(le=LARGEST_LAYERS)] | None = None
    hidden_size: Annotated[PositiveWhole, Field(le=2**20)] | None = None
    heads: Annotated[PositiveWhole, Field(le=2**14)] | None = None
    kv_heads: Annotated[PositiveWhole, Field(le=2**14)] | None = Field(
        default=None, description="Key and value heads (GQA, MQA); default: `heads`."
    )
    head_dim: Annotated[PositiveWhole, Field(le=2**16)] | None = Field(
        default=None, description="Default: hidden_size / heads."
    )
    ffn_hidden_size: Annotated[PositiveWhole, Field(le=2**22)] | None = Field(
        default=None, description="Default: 4 x hidden_size; required where `gated`."
    )
    gated: StrictBool | None = Field(default=None, description="Gated feed-forward (SwiGLU).")
    vocabulary: Annotated[PositiveWhole, Field(le=2**24)] | None = None
    sequence: Annotated[PositiveWhole, Field(le=2**24)] | None = None
    tied_embeddings: StrictBool | None = Field(
        default=None, description="Input and output embedding are one; default: not `gated`."
    )
    qkv_bias: StrictBool | None = Field(default=None, description="Default: `biases`.")
    qk_norm: StrictBool | None = Field(
        default=None,
        description="Each query and key head normalised by the model's kind of norm over head_dim "
        "(Qwen3); default: false.",
    )
    norm: Literal["layernorm", "rmsnorm"] | None = None
    norm_placement: Literal["pre", "post"] | None = Field(
        default=None, description="Default: `post` for an encoder, as in BERT, else `pre`."
    )
    biases: StrictBool | None = Field(default=None, description="Biases of the linear layers.")
    position_embeddings: Literal["learned", "rotary", "none"] | None = None
    max_positions: Annotated[PositiveWhole, Field(le=2**24)] | None = Field(
        default=None, description="Rows of learned position embeddings; default: `sequence`."
    )
    token_types: Annotated[WholeNumber, Field(le=2**24)] | None = Field(
        default=None,
        description="Rows of token type (segment) embeddings, 2 in BERT; default: 0.",
    )
    pooler: StrictBool | None = Field(
        default=None,
        description="A linear layer of hidden_size x hidden_size after the last layer that reads "
        "each sample's first token (BERT); default: false.",
    )
    experts: Annotated[PositiveWhole, Field(le=2**12)] | None = Field(
        default=None, description="Experts of each layer (mixture of experts)."
    )
    experts_per_token: Annotated[PositiveWhole, Field(le=2**12)] | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A transformer of identical layers. `experts` is 1 for a dense model, `max_positions` 0
    without learned positions; `causal`: tokens attend to earlier ones only."""

    name: str
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_hidden_size: int
    gated: bool
    vocabulary: int
    sequence: int
    tied_embeddings: bool
    qkv_bias: bool
    qk_norm: bool
    norm: Norm
    biases: bool
    position_embeddings: PositionEmbeddings
    max_positions: int
    token_types: int
    pooler: bool
    experts: int
    experts_per_token: int
    causal: bool
    norm_placement: NormPlacement
    source: str | None = None

    @property
    def query_size(self) -> int:
        """Width of the concatenated query heads."""
        return self.heads * self.head_dim

    @property
    def key_value_size(self) -> int:
        """Width of the concatenated key heads (and of the value heads)."""
        return self.kv_heads * self.head_dim

    @property
    def has_router(self) -> bool:
        """Whether each layer routes tokens among experts."""
        return self.experts > 1

    @property
    def dropout(self) -> bool:
        """GPT-like models train with dropout, gated (Llama-like) ones without."""
        return not self.gated


def read_model(raw: Mapping[str, Any] | str, path: Path = ("model",)) -> Model:
    """Read a preset's name or a model document.

    Raises `SpecError` that names the first field at fault, below `path`.
    """
    if not isinstance(raw, (str, Mapping)):
        raise SpecError(path, "must be a preset's name or an object.", 'Such as "Llama-3-8B".')
    try:
        document = ModelDocument.model_validate({"preset": raw} if isinstance(raw, str) else raw)
    except ValidationError as error:
        raise spec_error_from(error, path) from error
    given = document.model_dump(exclude_none=True, exclude={"preset", "name"})
    name, source = document.name or "own model", None
    if document.preset is not None:
        where = path if isinstance(raw, str) else (*path, "preset")
        preset = find_preset(document.preset, MODEL_PRESETS, MODEL_ALIASES, where, "model")
        source = preset.source if not given else f"{preset.source} Changed: {', '.join(given)}."
        name = document.name or (preset.name if not given else f"{preset.name}, changed")
        given = dict(preset.fields) | given
    return _model(given, name, source, path)


def _model(fields: dict[str, Any], name: str, source: str | None, path: Path) -> Model:
    for field in ("layers", "hidden_size", "heads", "vocabulary", "sequence"):
        if field not in fields:
            raise SpecError((*path, field), "is required.", "Give it, or name a `preset`.")
    gated = fields.get("gated", False)
    biases = fields.get("biases", not gated)
    hidden, heads = fields["hidden_size"], fields["heads"]
    if gated and "ffn_hidden_size" not in fields:
        raise SpecError(
            (*path, "ffn_hidden_size"),
            "is required where `gated` is true.",
            "Gated models differ in it; Llama-2-7B has 11008 for a hidden size of 4096.",
        )
    if "head_dim" not in fields and hidden % heads:
        raise SpecError(
            (*path, "heads"),
            f"does not divide hidden_size {hidden}.",
            "Change it, or give `head_dim`.",
        )
    kv_heads = fields.get("kv_heads", heads)
    if heads % kv_heads:
        raise SpecError(
            (*path, "kv_heads"),
            f"does not divide heads ({heads}).",
            "Give a divisor; each key/value head serves as many query heads.",
        )
    positions = PositionEmbeddings(
        fields.get("position_embeddings", "rotary" if gated else "learned")
    )
    learned = positions is PositionEmbeddings.LEARNED
    if "max_positions" in fields and not learned:
        raise SpecError(
            (*path, "max_positions"),
            f"has no meaning with {positions} positions.",
            "Remove it; only learned position embeddings have rows.",
        )
    max_positions = fields.get("max_positions", fields["sequence"]) if learned else 0
    if learned and fields["sequence"] > max_positions:
        raise SpecError(
            (*path, "sequence"),
            f"{fields['sequence']} is longer than the {max_positions} learned positions.",
            "Shorten it or raise `max_positions`.",
        )
    experts, experts_per_token = _experts(fields, path)
    causal = fields.get("architecture", "decoder") == "decoder"
    return Model(
        name=name,
        layers=fields["layers"],
        hidden_size=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=fields.get("head_dim", hidden // heads),
        ffn_hidden_size=fields.get("ffn_hidden_size", 4 * hidden),
        gated=gated,
        vocabulary=fields["vocabulary"],
        sequence=fields["sequence"],
        tied_embeddings=fields.get("tied_embeddings", not gated),
        qkv_bias=fields.get("qkv_bias", biases),
        qk_norm=fields.get("qk_norm", False),
        norm=Norm(fields.get("norm", "rmsnorm" if gated else "layernorm")),
        biases=biases,
        position_embeddings=positions,
        max_positions=max_positions,
        token_types=fields.get("token_types", 0),
        pooler=fields.get("pooler", False),
        experts=experts,
        experts_per_token=experts_per_token,
        causal=causal,
        norm_placement=NormPlacement(fields.get("norm_placement", "pre" if causal else "post")),
        source=source,
    )


def _experts(fields: dict[str, Any], path: Path) -> tuple[int, int]:
    experts = fields.get("experts", 1)
    if experts > 1 and "experts_per_token" not in fields:
        raise SpecError(
            (*path, "experts_per_token"),
            "is required where there are `experts`.",
            "Give how many of them each token goes to; Mixtral-8x7B has 2.",
        )
    per_token = fields.get("experts_per_token", 1)
    if per_token > experts:
        raise SpecError(
            (*path, "experts_per_token"),
            f"is more than the {experts} experts.",
            f"Give at most {experts}.",
        )
    return experts, per_token
