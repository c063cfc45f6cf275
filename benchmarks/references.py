"""Published figures of models that benchmarks and tests compare with."""

from __future__ import annotations

PARAMETERS = {
    "GPT-2": 124_439_808,
    "GPT-2-XL": 1_557_611_200,
    "BERT-Base": 109_482_240,
    "BERT-Large": 335_141_888,
    "Llama-2-7B": 6_738_415_616,
    "Llama-2-13B": 13_015_864_320,
    "Llama-2-70B": 68_976_648_192,
    "Llama-3-8B": 8_030_261_248,
    "Llama-3-70B": 70_553_706_496,
    "Llama-3-405B": 405_853_388_800,
    "Llama-3.2-1B": 1_235_814_400,
    "Mistral-7B": 7_241_732_096,
    "Mixtral-8x7B": 46_702_792_704,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen3-8B": 8_190_735_360,
}
"""Of released checkpoints: the elements of all their tensors, a tied embedding counted once."""

MEMORY_TEST_MODEL = {
    "layers": 32,
    "hidden_size": 4096,
    "heads": 32,
    "kv_heads": 8,
    "vocabulary": 131_073,
    "sequence": 8192,
    "tied_embeddings": False,
}
"""The model of Megatron-LM's own memory tests, whose sizes no paper has."""
