"""Tensors of published checkpoints as Hugging Face's Transformers names and shapes them.

Written from the released `config.json` files and the modelling code of each family, without the
planner's own formulas, so that its parameter counts are checked against something else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

Tensors = Iterator[tuple[str, tuple[int, ...]]]
Config = dict[str, Any]


def gpt2(layers: int, hidden: int) -> Config:
    """`GPT2LMHeadModel`."""
    return {"family": "gpt2", "n_layer": layers, "n_embd": hidden}


def bert(layers: int, hidden: int) -> Config:
    """`BertModel`."""
    return {"family": "bert", "num_hidden_layers": layers, "hidden_size": hidden}


def llama(
    layers: int, hidden: int, heads: tuple[int, int], ffn: int, vocabulary: int, **other: Any
) -> Config:
    """`LlamaForCausalLM` and those alike; `heads` of queries and of keys."""
    return {
        "family": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": hidden // heads[0],
        "intermediate_size": ffn,
        "vocab_size": vocabulary,
        **other,
    }


CONFIGS = {
    "gpt2": gpt2(12, 768),
    "gpt2-xl": gpt2(48, 1600),
    "bert-base-uncased": bert(12, 768),
    "bert-large-uncased": bert(24, 1024),
    "Llama-2-7b-hf": llama(32, 4096, (32, 32), 11008, 32000),
    "Llama-2-13b-hf": llama(40, 5120, (40, 40), 13824, 32000),
    "Llama-2-70b-hf": llama(80, 8192, (64, 8), 28672, 32000),
    "Meta-Llama-3-8B": llama(32, 4096, (32, 8), 14336, 128256),
    "Meta-Llama-3-70B": llama(80, 8192, (64, 8), 28672, 128256),
    "Llama-3.1-405B": llama(126, 16384, (128, 8), 53248, 128256),
    "Llama-3.2-1B": llama(16, 2048, (32, 8), 8192, 128256, tie_word_embeddings=True),
    "Mistral-7B-v0.1": llama(32, 4096, (32, 8), 14336, 32000),
    "Mixtral-8x7B-v0.1": llama(32, 4096, (32, 8), 14336, 32000, num_local_experts=8),
    "Qwen2.5-0.5B": llama(
        24, 896, (14, 2), 4864, 151936, attention_bias=True, tie_word_embeddings=True
    ),
    "Qwen2.5-7B": llama(28, 3584, (28, 4), 18944, 152064, attention_bias=True),
    "Qwen3-8B": llama(36, 4096, (32, 8), 12288, 151936, head_dim=128, qk_norm=True),
}


def parameters(name: str, prefix: str = "") -> int:
    """Elements of all tensors of a checkpoint whose names begin with `prefix`."""
    config = CONFIGS[name]
    tensors = {"gpt2": _gpt2, "bert": _bert, "llama": _llama}[config["family"]](config)
    return sum(math.prod(shape) for tensor, shape in tensors if tensor.startswith(prefix))


def _linear(name: str, inputs: int, outputs: int, *, bias: bool = True) -> Tensors:
    yield f"{name}.weight", (outputs, inputs)
    if bias:
        yield f"{name}.bias", (outputs,)


def _layer_norm(name: str, width: int) -> Tensors:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def _gpt2(config: Config) -> Tensors:
    hidden = config["n_embd"]
    yield "transformer.wte.weight", (50257, hidden)
    yield "transformer.wpe.weight", (1024, hidden)
    for number in range(config["n_layer"]):
        layer = f"transformer.h.{number}"
        yield from _layer_norm(f"{layer}.ln_1", hidden)
        yield from _linear(f"{layer}.attn.c_attn", hidden, 3 * hidden)
        yield from _linear(f"{layer}.attn.c_proj", hidden, hidden)
        yield from _layer_norm(f"{layer}.ln_2", hidden)
        yield from _linear(f"{layer}.mlp.c_fc", hidden, 4 * hidden)
        yield from _linear(f"{layer}.mlp.c_proj", 4 * hidden, hidden)
    yield from _layer_norm("transformer.ln_f", hidden)


def _bert(config: Config) -> Tensors:
    hidden = config["hidden_size"]
    yield "embeddings.word_embeddings.weight", (30522, hidden)
    yield "embeddings.position_embeddings.weight", (512, hidden)
    yield "embeddings.token_type_embeddings.weight", (2, hidden)
    yield from _layer_norm("embeddings.LayerNorm", hidden)
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            yield from _linear(f"{layer}.attention.self.{part}", hidden, hidden)
        yield from _linear(f"{layer}.attention.output.dense", hidden, hidden)
        yield from _layer_norm(f"{layer}.attention.output.LayerNorm", hidden)
        yield from _linear(f"{layer}.intermediate.dense", hidden, 4 * hidden)
        yield from _linear(f"{layer}.output.dense", 4 * hidden, hidden)
        yield from _layer_norm(f"{layer}.output.LayerNorm", hidden)
    yield from _linear("pooler.dense", hidden, hidden)


def _llama(config: Config) -> Tensors:
    hidden, words = config["hidden_size"], config["vocab_size"]
    yield "model.embed_tokens.weight", (words, hidden)
    for number in range(config["num_hidden_layers"]):
        layer = f"model.layers.{number}"
        yield f"{layer}.input_layernorm.weight", (hidden,)
        yield from _llama_attention(config, f"{layer}.self_attn")
        yield f"{layer}.post_attention_layernorm.weight", (hidden,)
        yield from _llama_feed_forward(config, layer)
    yield "model.norm.weight", (hidden,)
    if not config.get("tie_word_embeddings"):
        yield "lm_head.weight", (words, hidden)


def _llama_attention(config: Config, name: str) -> Tensors:
    hidden, size = config["hidden_size"], config["head_dim"]
    queries = size * config["num_attention_heads"]
    keys = size * config["num_key_value_heads"]
    bias = config.get("attention_bias", False)
    yield from _linear(f"{name}.q_proj", hidden, queries, bias=bias)
    yield from _linear(f"{name}.k_proj", hidden, keys, bias=bias)
    yield from _linear(f"{name}.v_proj", hidden, keys, bias=bias)
    # Qwen2 has biases of queries, keys and values only.
    yield from _linear(f"{name}.o_proj", queries, hidden, bias=False)
    if config.get("qk_norm"):
        yield f"{name}.q_norm.weight", (size,)
        yield f"{name}.k_norm.weight", (size,)


def _llama_feed_forward(config: Config, layer: str) -> Tensors:
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    experts = config.get("num_local_experts")
    if experts is None:
        names = {"mlp": ("gate_proj", "up_proj", "down_proj")}
    else:
        yield f"{layer}.block_sparse_moe.gate.weight", (experts, hidden)
        names = {f"block_sparse_moe.experts.{e}": ("w1", "w3", "w2") for e in range(experts)}
    for name, (gate, up, down) in names.items():
        yield from _linear(f"{layer}.{name}.{gate}", hidden, ffn, bias=False)
        yield from _linear(f"{layer}.{name}.{up}", hidden, ffn, bias=False)
        yield from _linear(f"{layer}.{name}.{down}", ffn, hidden, bias=False)
