"""Split backward by deferral: linear layers queue what their weight gradient needs until W.

PyTorch's own split keeps the whole graph from I to W, and memory grows at I. Here I is one
ordinary backward that leaves of each linear layer only its input and the gradient of its output;
W multiplies them. That is the split which zero-bubble schedules assume (Qi et al., Zero Bubble
Pipeline Parallelism, 2023). Parameters of other layers (norms, embeddings, biases of their own)
have their gradients at I already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from client.torch_runner.errors import StageError

WeightPass = Callable[[], None]
"""Computes and accumulates the weight gradients that one backward left; to be called once."""


def defer_weight_gradients(module: nn.Module) -> Callable[[], WeightPass]:
    """Make every `nn.Linear` in a stage's module queue its weight gradient; the `dw_builder`.

    Changes the layers in place (their class; parameters, their names and the state dict stay).
    Give what this returns to `PipelineStage(..., dw_builder=...)`, or call it after a backward
    through the module: it returns what W has to run. Until that has run, `weight.grad` and
    `bias.grad` of linear layers lack that backward's share. Gradients are exact.

    What a backward left that nobody asked for (PyTorch infers shapes by a trial run) is dropped by
    the module's next forward. Hooks on the gradients of these weights do not run, so don't wrap
    the module in `DistributedDataParallel`: reduce the gradients after the step. Subclasses of
    `nn.Linear` with a forward of their own are left alone. Raises `StageError` if it is called
    twice for a module, or if there is no `nn.Linear` in it.
    """
    layers = list(module.modules())
    if any(isinstance(layer, DeferredLinear) for layer in layers):
        raise StageError(
            "The weight gradients of this module are deferred already: keep the dw_builder that "
            "the first call of defer_weight_gradients returned."
        )
    linear = [layer for layer in layers if type(layer) is nn.Linear]
    if not linear:
        raise StageError(
            "There is no nn.Linear in this module, so W would have nothing to do: use a fused "
            "backward, or PyTorch's native split (no dw_builder)."
        )
    queue = _Queue()
    for layer in linear:
        layer.__class__ = DeferredLinear
        layer.__dict__["queue"] = queue
    module.register_forward_pre_hook(lambda *_: queue.clear())
    return queue.taken


class _Queue:
    """What the backward that ran last left to do."""

    def __init__(self) -> None:
        self._entries: list[tuple[nn.Parameter, nn.Parameter | None, Tensor, Tensor]] = []

    def add(
        self, weight: nn.Parameter, bias: nn.Parameter | None, x: Tensor, grad_output: Tensor
    ) -> None:
        self._entries.append((weight, bias, x, grad_output))

    def clear(self) -> None:
        self._entries.clear()

    def taken(self) -> WeightPass:
        entries, self._entries = self._entries, []

        def run() -> None:
            while entries:
                # Popped, so that a layer's tensors are free as soon as they are used.
                _accumulate(*entries.pop())

        return run

    def __deepcopy__(self, memo: Any) -> _Queue:
        raise TypeError(
            "A module whose weight gradients are deferred cannot be copied: its copy would queue "
            "them for nobody. Copy it before defer_weight_gradients."
        )


class DeferredLinear(nn.Linear):
    """A linear layer whose weight gradient waits in a queue. Made by `defer_weight_gradients`."""

    queue: _Queue

    def forward(self, x: Tensor) -> Tensor:
        """As `nn.Linear`."""
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        output: Tensor = _LinearFunction.apply(x, self.weight, self.bias, self.queue)
        return output


class _LinearFunction(torch.autograd.Function):
    """y = x W^T + b, with only the gradient of x."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: nn.Parameter, bias: nn.Parameter | None, queue: _Queue
    ) -> Tensor:
        # Hooks on saved tensors may give back a copy: gradients go to the parameters themselves.
        ctx.save_for_backward(x, weight)
        ctx.parameters, ctx.queue = (weight, bias), queue
        with torch.autocast(x.device.type, enabled=False):
            return functional.linear(
                x, weight.to(x.dtype), None if bias is None else bias.to(x.dtype)
            )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, None, None, None]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        if needs_weight or needs_bias:
            ctx.queue.add(*ctx.parameters, x.detach(), grad_output)
        grad_x = grad_output.matmul(weight.to(grad_output.dtype)) if needs_x else None
        return grad_x, None, None, None


@torch.no_grad()
def _accumulate(
    weight: nn.Parameter, bias: nn.Parameter | None, x: Tensor, grad_output: Tensor
) -> None:
    rows = grad_output.reshape(-1, grad_output.shape[-1])
    if weight.requires_grad:
        _add_to_grad(weight, rows.t().matmul(x.reshape(-1, x.shape[-1])))
    if bias is not None and bias.requires_grad:
        _add_to_grad(bias, rows.sum(0))


def _add_to_grad(parameter: nn.Parameter, gradient: Tensor) -> None:
    gradient = gradient.to(parameter.dtype)
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient
