"""Measured values that replace computed ones. Any subset may be given."""

from __future__ import annotations

from pydantic import Field

from planner.documents import Document, WholeNumber


class BlockProfile(Document):
    """Of one layer, the embedding or the head: times and sizes per micro-batch on one GPU."""

    forward_ns: WholeNumber | None = None
    backward_input_ns: WholeNumber | None = Field(
        default=None, description="The whole backward where `backward_weight_ns` is 0."
    )
    backward_weight_ns: WholeNumber | None = None
    activation_bytes: WholeNumber | None = None
    weight_grad_bytes: WholeNumber | None = None
    backward_workspace_bytes: WholeNumber | None = None
    offload_bytes: WholeNumber | None = Field(
        default=None, description="Default: a layer's and the embedding's `activation_bytes`."
    )
    offload_ns: WholeNumber | None = None
    reload_ns: WholeNumber | None = None


class ProfileDocument(Document):
    """What was measured on the cluster."""

    layer: BlockProfile = BlockProfile()
    embedding: BlockProfile = BlockProfile()
    head: BlockProfile = BlockProfile()
    transfer_ns: WholeNumber | None = Field(
        default=None, description="Latency between stages on different devices."
    )
    activation_memory_bytes: WholeNumber | None = Field(
        default=None, description="Left for activations on every device."
    )
    epilogue_ns: WholeNumber | None = Field(
        default=None, description="Gradient reduction and optimizer step of every device."
    )
