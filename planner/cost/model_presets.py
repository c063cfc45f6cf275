"""Published transformer shapes, each with its source.

`sequence` is the length of the (main) pre-training runs where it is published, which later stages
and inference may exceed; `source` says so where the two differ.
"""

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


def _bert(layers: int, hidden_size: int, heads: int) -> dict[str, Any]:
    return {
        **_gpt(layers, hidden_size, heads, 30522, 512),
        "architecture": "encoder",
        "token_types": 2,
        "pooler": True,
    }


_OWN_SHAPE = (
    "Own shape: the articles on OptPipe and AdaOffload give only the name and the size. "
    "Layers, hidden size and heads were chosen here for that parameter count, vocabulary and "
    "sequence as in the Zero Bubble paper. (One article's row with 256 layers of hidden size 128 "
    "cannot be right: it would hold about 57 million parameters.)"
)

_KORTHIKANTI = (
    "Korthikanti et al. 2022 (arXiv 2205.05198), table 3: {}; vocabulary 51200 and sequence 2048 "
    "as there, learned positions and a tied output embedding as in Megatron-LM."
)
_LLAMA_2 = (
    "Touvron et al. 2023 (arXiv 2307.09288), table 1, and the released configuration. "
    "Sequence 4096: its training and context length."
)
_LLAMA_3 = (
    "Grattafiori et al. 2024 (arXiv 2407.21783), table 3, and the released configuration. "
    "Sequence 8192 as in its main pre-training, Llama 3.1's context of 131072 came last (section "
    "3.4)."
)
_QWEN_2_5 = (
    "Qwen Team 2024 (arXiv 2412.15115), table 1, and the released configuration (biases of query, "
    "key and value; {}). Sequence 4096 as in its main pre-training, 32768 came last (section 3.3)."
)
_BERT = (
    "Devlin et al. 2019 (arXiv 1810.04805), section 3, and the released uncased checkpoint, with "
    "segment embeddings and pooler, without what only its pre-training has (the transformation "
    "before the output layer, the output layer's bias, next sentence prediction). Sequence 512 is "
    "the longest that it was trained with; 90 % of the steps had 128 (appendix A.2)."
)

_PRESETS = (
    ModelPreset(
        "GPT-2",
        "Radford et al. 2019, smallest model; sizes as in the released checkpoint (124 M), whose "
        "context of 1024 is the sequence.",
        _gpt(12, 768, 12, 50257, 1024),
    ),
    ModelPreset(
        "GPT-2-XL",
        "Radford et al. 2019, largest model; sizes as in the released checkpoint (1.56 B), whose "
        "context of 1024 is the sequence.",
        _gpt(48, 1600, 25, 50257, 1024),
    ),
    ModelPreset(
        "GPT-3-175B",
        "Brown et al. 2020 (arXiv 2005.14165), table 2.1 and section 2.1 (sequence 2048); "
        "vocabulary of GPT-2.",
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
        "Megatron-22B",
        _KORTHIKANTI.format("48 layers, hidden size 6144, 64 heads"),
        _gpt(48, 6144, 64, 51200, 2048),
    ),
    ModelPreset(
        "Megatron-175B",
        _KORTHIKANTI.format("96 layers, hidden size 12288, 96 heads (GPT-3's with more words)"),
        _gpt(96, 12288, 96, 51200, 2048),
    ),
    ModelPreset(
        "Megatron-530B",
        _KORTHIKANTI.format("105 layers, hidden size 20480, 128 heads (MT-NLG)"),
        _gpt(105, 20480, 128, 51200, 2048),
    ),
    ModelPreset(
        "Megatron-1T",
        _KORTHIKANTI.format("128 layers, hidden size 25600, 160 heads"),
        _gpt(128, 25600, 160, 51200, 2048),
    ),
    ModelPreset("Llama-2-7B", _LLAMA_2, _llama(32, 4096, 32, 32, 11008, 32000, 4096)),
    ModelPreset("Llama-2-13B", _LLAMA_2, _llama(40, 5120, 40, 40, 13824, 32000, 4096)),
    ModelPreset("Llama-2-70B", _LLAMA_2, _llama(80, 8192, 64, 8, 28672, 32000, 4096)),
    ModelPreset("Llama-3-8B", _LLAMA_3, _llama(32, 4096, 32, 8, 14336, 128256, 8192)),
    ModelPreset("Llama-3-70B", _LLAMA_3, _llama(80, 8192, 64, 8, 28672, 128256, 8192)),
    ModelPreset("Llama-3-405B", _LLAMA_3, _llama(126, 16384, 128, 8, 53248, 128256, 8192)),
    ModelPreset(
        "Llama-3.2-1B",
        "Released configuration and model card (Meta, September 2024). The length of its training "
        "is not published: sequence 8192 as in Llama 3's main pre-training, its context is 131072.",
        _llama(16, 2048, 32, 8, 8192, 128256, 8192) | {"tied_embeddings": True},
    ),
    ModelPreset(
        "Mistral-7B",
        "Jiang et al. 2023 (arXiv 2310.06825), table 1 (context 8192), and the released "
        "configuration of version 0.1. Its sliding window of 4096 is not modelled: every token "
        "attends to all earlier ones.",
        _llama(32, 4096, 32, 8, 14336, 32000, 8192),
    ),
    ModelPreset(
        "Mixtral-8x7B",
        "Jiang et al. 2024 (arXiv 2401.04088), table 1, and the released configuration. Sequence "
        "32768: the context that it was trained with (section 1).",
        _llama(32, 4096, 32, 8, 14336, 32000, 32768) | {"experts": 8, "experts_per_token": 2},
    ),
    ModelPreset(
        "Qwen2.5-0.5B",
        _QWEN_2_5.format("tied output embedding"),
        _llama(24, 896, 14, 2, 4864, 151936, 4096) | {"qkv_bias": True, "tied_embeddings": True},
    ),
    ModelPreset(
        "Qwen2.5-7B",
        _QWEN_2_5.format("vocabulary padded to 152064"),
        _llama(28, 3584, 28, 4, 18944, 152064, 4096) | {"qkv_bias": True},
    ),
    ModelPreset(
        "Qwen3-8B",
        "Qwen Team 2025 (arXiv 2505.09388), table 1, and the released configuration (queries and "
        "keys normalised, no biases). Sequence 4096 as in its main pre-training, 32768 came last "
        "(section 3.2).",
        _llama(36, 4096, 32, 8, 12288, 151936, 4096) | {"qk_norm": True},
    ),
    ModelPreset("BERT-Base", _BERT, _bert(12, 768, 12)),
    ModelPreset("BERT-Large", _BERT, _bert(24, 1024, 16)),
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
    "22B": "Megatron-22B",
    "GPT-22B": "Megatron-22B",
    "530B": "Megatron-530B",
    "GPT-530B": "Megatron-530B",
    "MT-NLG-530B": "Megatron-530B",
    "1T": "Megatron-1T",
    "GPT-1T": "Megatron-1T",
    "Llama-2-7b-hf": "Llama-2-7B",
    "Llama-2-13b-hf": "Llama-2-13B",
    "Llama-2-70b-hf": "Llama-2-70B",
    "Meta-Llama-3-8B": "Llama-3-8B",
    "Meta-Llama-3-70B": "Llama-3-70B",
    "Llama-3.1-8B": "Llama-3-8B",
    "Llama-3.1-70B": "Llama-3-70B",
    "Llama-3.1-405B": "Llama-3-405B",
    "Meta-Llama-3.1-8B": "Llama-3-8B",
    "Meta-Llama-3.1-70B": "Llama-3-70B",
    "Meta-Llama-3.1-405B": "Llama-3-405B",
    "Mistral-7B-v0.1": "Mistral-7B",
    "Mixtral-8x7B-v0.1": "Mixtral-8x7B",
    "Qwen3-8B-Base": "Qwen3-8B",
    "BERT-base-uncased": "BERT-Base",
    "BERT-large-uncased": "BERT-Large",
}
