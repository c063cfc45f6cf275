"""Published transformer shapes, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ModelPreset:
    """Fields of a model document and where they come from."""

    name: str
    source: str
    fields: Mapping[str, Any]


def _gpt(
    layers: int, hidden_size: int, heads: int, vocabulary: int, sequence: int
) -> dict[str, Any]:
    return {
        "layers": layers,
        "hidden_size": hidden_size,
        "heads": heads,
        "vocabulary": vocabulary,
        "sequence": sequence,
    }


def _llama(
    layers: int,
    hidden_size: int,
    heads: int,
    kv_heads: int,
    ffn_hidden_size: int,
    vocabulary: int,
    sequence: int,
) -> dict[str, Any]:
    return {
        **_gpt(layers, hidden_size, heads, vocabulary, sequence),
        "kv_heads": kv_heads,
        "ffn_hidden_size": ffn_hidden_size,
        "gated": True,
    }


_OWN_SHAPE = (
    "Own shape: the articles on OptPipe and AdaOffload give only the name and the size. "
    "Layers, hidden size and heads were chosen here for that parameter count, vocabulary and "
    "sequence as in the Zero Bubble paper. (One article's row with 256 layers of hidden size 128 "
    "cannot be right: it would hold about 57 million parameters.)"
)

_PRESETS = (
    ModelPreset(
        "GPT-2",
        "Radford et al. 2019, smallest model; sizes as in the released checkpoint (124 M).",
        _gpt(12, 768, 12, 50257, 1024),
    ),
    ModelPreset(
        "GPT-2-XL",
        "Radford et al. 2019, largest model; sizes as in the released checkpoint (1.56 B).",
        _gpt(48, 1600, 25, 50257, 1024),
    ),
    ModelPreset(
        "GPT-3-175B",
        "Brown et al. 2020 (arXiv 2005.14165), table 2.1; vocabulary of GPT-2.",
        _gpt(96, 12288, 96, 50257, 2048),
    ),
    ModelPreset(
        "GPT-1.5B",
        "Qi et al. 2024, Zero Bubble Pipeline Parallelism (arXiv 2401.10241), table 3: 22 layers, "
        "24 heads, hidden size 2304, sequence 1024. Vocabulary 51200 as in Megatron-LM.",
        _gpt(22, 2304, 24, 51200, 1024),
    ),
    ModelPreset(
        "GPT-1.7B",
        "Narayanan et al. 2021 (arXiv 2104.04473), table 1: 24 layers, hidden size 2304, 24 heads; "
        "vocabulary 51200 and sequence 2048 as there.",
        _gpt(24, 2304, 24, 51200, 2048),
    ),
    ModelPreset(
        "GPT-3.6B",
        "Narayanan et al. 2021 (arXiv 2104.04473), table 1: 30 layers, hidden size 3072, 32 heads, "
        "vocabulary 51200. Sequence 1024 as in the articles' runs (theirs is 2048).",
        _gpt(30, 3072, 32, 51200, 1024),
    ),
    ModelPreset("GPT-7.1B", _OWN_SHAPE, _gpt(30, 4352, 34, 51200, 1024)),
    ModelPreset(
        "GPT-7.5B",
        "Narayanan et al. 2021 (arXiv 2104.04473), table 1: 36 layers, hidden size 4096, 32 heads; "
        "vocabulary 51200 and sequence 2048 as there.",
        _gpt(36, 4096, 32, 51200, 2048),
    ),
    ModelPreset("GPT-14.2B", _OWN_SHAPE, _gpt(38, 5520, 46, 51200, 1024)),
    ModelPreset(
        "Llama-2-7B",
        "Touvron et al. 2023 (arXiv 2307.09288) and the released configuration.",
        _llama(32, 4096, 32, 32, 11008, 32000, 4096),
    ),
    ModelPreset(
        "Llama-3-8B",
        "Grattafiori et al. 2024 (arXiv 2407.21783), table 3, and the released configuration.",
        _llama(32, 4096, 32, 8, 14336, 128256, 8192),
    ),
    ModelPreset(
        "Llama-3-70B",
        "Grattafiori et al. 2024 (arXiv 2407.21783), table 3, and the released configuration.",
        _llama(80, 8192, 64, 8, 28672, 128256, 8192),
    ),
    ModelPreset(
        "Llama-3-405B",
        "Grattafiori et al. 2024 (arXiv 2407.21783), table 3 (Llama 3.1 405B).",
        _llama(126, 16384, 128, 8, 53248, 128256, 8192),
    ),
    ModelPreset(
        "Mixtral-8x7B",
        "Jiang et al. 2024 (arXiv 2401.04088), table 1, and the released configuration.",
        _llama(32, 4096, 32, 8, 14336, 32000, 4096) | {"experts": 8, "experts_per_token": 2},
    ),
    ModelPreset(
        "BERT-Large",
        "Devlin et al. 2019 (arXiv 1810.04805), section 3, and the released uncased checkpoint, "
        "without its segment embeddings, pooler and the transformation before the output layer.",
        _gpt(24, 1024, 16, 30522, 512) | {"architecture": "encoder"},
    ),
)

MODEL_PRESETS: Mapping[str, ModelPreset] = {preset.name: preset for preset in _PRESETS}

MODEL_ALIASES: Mapping[str, str] = {
    "GPT-2-small": "GPT-2",
    "GPT-2-124M": "GPT-2",
    "GPT-2-1.5B": "GPT-2-XL",
    "GPT-3": "GPT-3-175B",
    "GPT-175B": "GPT-3-175B",
    "1.5B": "GPT-1.5B",
    "1.7B": "GPT-1.7B",
    "3.6B": "GPT-3.6B",
    "7.1B": "GPT-7.1B",
    "7.5B": "GPT-7.5B",
    "14.2B": "GPT-14.2B",
    "Llama-2-7b-hf": "Llama-2-7B",
    "Llama-3.1-8B": "Llama-3-8B",
    "Llama-3.1-70B": "Llama-3-70B",
    "Llama-3.1-405B": "Llama-3-405B",
    "Mixtral-8x7B-v0.1": "Mixtral-8x7B",
    "BERT-large-uncased": "BERT-Large",
}
