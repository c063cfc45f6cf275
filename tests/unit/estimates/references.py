"""Published and measured runs that estimates are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Published:
    """A model of Korthikanti et al. 2022 (arXiv 2205.05198), table 3: sizes and degrees.

    GiB of activations on the first rank with tensor parallelism and with tensor and sequence
    parallelism and selective recomputation (figure 1); percentages of tensor parallelism alone with
    sequence parallelism, selective recomputation, both, full recomputation (figure 7); seconds per
    iteration with both and with full recomputation, MFU and HFU (table 5).
    """

    hidden_size: int
    heads: int
    layers: int
    micro_batch_size: int
    pipeline: int
    chunks: int
    global_batch_size: int
    plain_gib: float
    both_gib: float
    shares: tuple[float, float, float, float]
    seconds: float
    full_seconds: float
    mfu: float
    hfu: float

    @property
    def gpus(self) -> int:
        """With a tensor degree of 8 and one replica."""
        return 8 * self.pipeline

    def body(self, **training: Any) -> dict[str, Any]:
        """A request; equal stages, attention scores stored."""
        stages = self.pipeline * self.chunks
        return {
            "model": {
                "layers": self.layers,
                "hidden_size": self.hidden_size,
                "heads": self.heads,
                "vocabulary": 51200,
                "sequence": 2048,
            },
            "cluster": {"gpu": "A100-80GB", "nodes": self.pipeline, "gpus_per_node": 8},
            "training": {
                "micro_batch_size": self.micro_batch_size,
                "global_batch_size": self.global_batch_size,
                "tensor_parallel": 8,
                "pipeline_parallel": self.pipeline,
                "interleaving": self.chunks,
                "layers_per_stage": [self.layers // stages] * stages,
                "flash_attention": False,
                **training,
            },
        }


PUBLISHED = {
    "22B": Published(
        *(6144, 64, 48, 4, 1, 1, 4, 59.25, 9.5625),
        (66.84, 49.42, 16.18, 7.64),
        *(1.10, 1.42, 41.7, 43.7),
    ),
    "175B": Published(
        *(12288, 96, 96, 1, 8, 3, 64, 66.84375, 12.3515625),
        (62.04, 56.53, 18.49, 8.71),
        *(13.75, 18.13, 51.4, 52.8),
    ),
    "530B": Published(
        *(20480, 128, 105, 1, 35, 3, 280, 114.0234375, 23.076171875),
        (58.31, 62.04, 20.27, 9.42),
        *(37.83, 49.05, 56.0, 57.0),
    ),
    "1T": Published(
        *(25600, 160, 128, 1, 64, 1, 512, 131.25, 26.5625),
        (58.31, 62.04, 20.27, 9.42),
        *(71.49, 94.42, 56.3, 57.0),
    ),
}

GOLDEN_7B = {
    "layers": 32,
    "hidden_size": 4096,
    "heads": 32,
    "kv_heads": 8,
    "ffn_hidden_size": 16384,
    "vocabulary": 131_073,
    "sequence": 8192,
    "tied_embeddings": False,
}
"""The model of two of Megatron-LM's functional tests, which record memory and iteration times."""
GOLDEN_TENSOR = {
    "micro_batch_size": 2,
    "global_batch_size": 8,
    "tensor_parallel": 4,
    "pipeline_parallel": 1,
    "data_parallel": 2,
    "sequence_parallel": False,
    "zero_stage": 1,
}
GOLDEN_INTERLEAVED = {
    "micro_batch_size": 1,
    "global_batch_size": 8,
    "pipeline_parallel": 4,
    "data_parallel": 2,
    "interleaving": 8,
    "zero_stage": 1,
}
