"""Models of transformers by their configuration, without weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from client.errors import InputError
from client.torch_extract.fakes import build_fake

INSTALL = "Install it: pip install transformers."
UNMASKED = "loadmaster_sdpa"
"""Attention of a batch without padding: causal models say so to the kernel and build no mask."""

ENCODERS = frozenset(
    {"bert", "roberta", "albert", "distilbert", "electra", "camembert", "xlm-roberta", "modernbert"}
)
"""Models that attend both ways, though transformers has causal forms of some."""

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def read_config(path: Path) -> Any:
    """A configuration of transformers from a `config.json` or the folder that holds one.

    Raises `InputError` where transformers is missing or does not know the model.
    """
    try:
        from transformers import AutoConfig
    except ImportError as error:
        raise InputError("--hf", "needs transformers, which is not installed.", INSTALL) from error
    if not path.exists():
        raise InputError("--hf", f"there is no {path}.", "Name a config.json or its folder.")
    try:
        return AutoConfig.from_pretrained(str(path))
    except (OSError, ValueError, KeyError) as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(
            "--hf", f"{path} is no configuration that transformers reads: {text}",
            "It needs a `model_type` that transformers knows.",
        ) from error  # fmt: skip


def build_model(
    config: Any, *, batch: int, sequence: int, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.nn.Module, dict[str, Any]]:
    """A model with a language-modelling head, or else without, and its inputs with labels.

    An encoder gets the head of masked language modelling. There are no labels without a head.
    Raises `InputError` for an encoder with a decoder.
    """
    import transformers

    if getattr(config, "is_encoder_decoder", False):
        raise InputError(
            "--hf",
            f"{config.model_type} is an encoder with a decoder.",
            "Name a factory instead, which returns the model and the inputs of both.",
        )
    _register_unmasked()
    config.use_cache = False
    heads = [transformers.AutoModelForCausalLM, transformers.AutoModelForMaskedLM]
    if config.model_type in ENCODERS and not getattr(config, "is_decoder", False):
        heads.reverse()
    known = [head for head in heads if type(config) in head._model_mapping]
    auto = known[0] if known else transformers.AutoModel
    own = auto._model_mapping[type(config)]
    attention = UNMASKED if getattr(own, "_supports_sdpa", True) else "eager"

    def make() -> tuple[torch.nn.Module, dict[str, Any]]:
        model = auto.from_config(config, attn_implementation=attention)
        model.train()
        tokens = torch.zeros(batch, sequence, dtype=torch.int64)
        inputs = {"input_ids": tokens}
        if known:
            inputs["labels"] = torch.zeros(batch, sequence, dtype=torch.int64)
        return model, inputs

    return build_fake(make, dtype=dtype)


def _register_unmasked() -> None:
    from transformers import AttentionInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(UNMASKED, sdpa_attention_forward)
    AttentionMaskInterface.register(UNMASKED, _no_mask)


def _no_mask(*_: Any, **__: Any) -> None:
    return None
