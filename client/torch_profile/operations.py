"""F, B, I and W of one stage as `torch.distributed.pipelining` runs them.

Its own functions do the backward, so what is measured is what its runtime will do; processes and
their transfers are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.distributed.pipelining._backward import (
    stage_backward,
    stage_backward_input,
    stage_backward_weight,
)

from client.torch_profile.pipeline import Pipeline, Tensors
from client.torch_profile.splits import Split
from client.torch_runner.deferred_weights import WeightPass, defer_weight_gradients


@dataclass
class Kept:
    """What a stage holds of a micro-batch from F to its last backward."""

    inputs: Tensors
    outputs: Tensors
    loss: Tensor | None
    output_grads: tuple[Tensor | None, ...] | None = None
    parameter_groups: list[dict[str, Any]] | None = None
    weight_pass: WeightPass | None = None


@dataclass
class Stage:
    """One stage of a pipeline. `split` says how its backward is divided, if it is."""

    module: nn.Module
    is_first: bool
    loss: Callable[..., Tensor] | None
    split: Split
    take_weight_pass: Callable[[], WeightPass] | None
    kept: dict[int, Kept] = field(default_factory=dict)

    @property
    def has_weight_pass(self) -> bool:
        """Whether W is an operation of its own."""
        return self.split is not Split.FUSED

    def forward(self, micro_batch: int, inputs: Tensors) -> Tensors:
        """F, on the last stage with the loss."""
        result = self.module(*inputs)
        outputs = result if isinstance(result, tuple) else (result,)
        loss = None if self.loss is None else self.loss(*outputs)
        self.kept[micro_batch] = Kept(inputs, outputs, loss)
        return outputs

    def backward(
        self, micro_batch: int, output_grads: tuple[Tensor | None, ...] | None
    ) -> tuple[Tensor | None, ...]:
        """B of a fused backward, or I of a split one: the gradients of the stage's inputs.

        `output_grads` is None on the last stage, which begins at the loss.
        """
        kept = self.kept[micro_batch] if self.has_weight_pass else self.kept.pop(micro_batch)
        kept.output_grads = output_grads
        if self.split is Split.NATIVE:
            return self._native_input_pass(kept)
        grads = self._whole_backward(kept)
        if self.take_weight_pass is not None:
            # Only the queue is kept for W; the graph is gone.
            self.kept[micro_batch] = Kept((), (), None, weight_pass=self.take_weight_pass())
        return grads

    def backward_weight(self, micro_batch: int) -> None:
        """W of a split backward."""
        kept = self.kept.pop(micro_batch)
        if kept.weight_pass is not None:
            kept.weight_pass()
        elif kept.parameter_groups is not None:
            stage_backward_weight(self.module.parameters(), kept.parameter_groups)
        else:
            self._whole_backward(kept)

    def _whole_backward(self, kept: Kept) -> tuple[Tensor | None, ...]:
        begin = kept.outputs if kept.loss is None else kept.loss
        grads: tuple[Tensor | None, ...] = stage_backward(begin, kept.output_grads, kept.inputs)
        self._release_outputs(kept)
        return grads

    def _native_input_pass(self, kept: Kept) -> tuple[Tensor | None, ...]:
        if self.is_first:
            # PyTorch's runtime leaves the whole backward of the first stage to W.
            return tuple(None for _ in kept.inputs)
        begin = kept.outputs if kept.loss is None else (kept.loss,)
        grads, kept.parameter_groups = stage_backward_input(
            begin, kept.output_grads, kept.inputs, self.module.parameters()
        )
        self._release_outputs(kept)
        kept.outputs = kept.outputs if kept.loss is None else ()
        made: tuple[Tensor | None, ...] = grads
        return made

    def _release_outputs(self, kept: Kept) -> None:
        """The last stage's output leads to the graph, which nobody needs after the backward."""
        if kept.loss is not None and not self.is_first:
            for output in kept.outputs:
                if not output._is_view():
                    output.detach_()


def stages_of(pipeline: Pipeline, split: Split) -> list[Stage]:
    """The stages, ready to run. A deferred split changes their linear layers in place.

    A stage in which the split leaves nothing for W has a fused backward: one without parameters
    to train, or for a deferred split without a linear layer.
    """
    last = len(pipeline.stages) - 1
    stages = []
    for s, module in enumerate(pipeline.stages):
        possible = split if _leaves_weight_work(module, split) else Split.FUSED
        stages.append(
            Stage(
                module=module,
                is_first=s == 0,
                loss=pipeline.loss if s == last else None,
                split=possible,
                take_weight_pass=(
                    defer_weight_gradients(module) if possible is Split.DEFERRED else None
                ),
            )
        )
    return stages


def _leaves_weight_work(module: nn.Module, split: Split) -> bool:
    if split is Split.DEFERRED:
        return any(
            type(layer) is nn.Linear and layer.weight.requires_grad for layer in module.modules()
        )
    return any(parameter.requires_grad for parameter in module.parameters())


def copied(tensor: Tensor) -> Tensor:
    """A copy, as the next rank receives it into a buffer of its own."""
    return tensor.detach().clone()


def received(tensors: Tensors) -> Tensors:
    """Copies of a stage's outputs as the inputs of the next, to be differentiated by."""
    copies = tuple(copied(tensor) for tensor in tensors)
    for copy in copies:
        copy.requires_grad_(copy.is_floating_point() or copy.is_complex())
    return copies
