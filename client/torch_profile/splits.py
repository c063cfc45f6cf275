"""How the backward of a stage is divided."""

from __future__ import annotations

from enum import StrEnum


class Split(StrEnum):
    """`DEFERRED`: linear layers queue their weight gradients until W, and the graph is freed at
    I. `NATIVE`: PyTorch's own I and W, which keep the graph until W. `FUSED`: B does both."""

    DEFERRED = "deferred"
    NATIVE = "native"
    FUSED = "fused"


SPLIT_NAMES = {
    Split.DEFERRED: "deferred split",
    Split.NATIVE: "PyTorch's native split",
    Split.FUSED: "fused backward",
}
SPLIT_WORDS = {
    Split.DEFERRED: "deferred split, with client.torch_runner.deferred_weights as dw_builder",
    Split.NATIVE: "PyTorch's native split, which keeps the graph until W",
    Split.FUSED: "fused, without W",
}
