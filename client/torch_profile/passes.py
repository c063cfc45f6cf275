"""One micro-batch through the whole pipeline in one process, each operation under observation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from client.torch_profile.operations import Stage, copied, received
from client.torch_profile.pipeline import Tensors


@dataclass
class Boundary:
    """Tensors at the borders of a stage, which PyTorch's runtime holds in buffers for the whole
    step: what was received and what was sent, forwards and backwards."""

    tensors: list[Tensor] = field(default_factory=list)

    def add(self, tensors: Sequence[Tensor | None]) -> None:
        """Hold those that are there."""
        self.tensors += [tensor for tensor in tensors if tensor is not None]


class Observer(Protocol):
    """Runs an operation and notes what it cares about."""

    def __call__(self, op: str, stage: int, boundary: Boundary, run: Callable[[], Any]) -> Any: ...


def run_micro_batch(stages: Sequence[Stage], micro_batch: Tensors, observe: Observer) -> None:
    """F of every stage, then B or I, and W where there is one, from the last stage to the first.

    What lies at the borders of stages stays until the end of the pass.
    """
    boundaries = [Boundary() for _ in stages]
    sent = micro_batch
    for s in range(len(stages)):
        inputs = received(sent) if s else sent
        sent = forward(stages[s], s, inputs, boundaries[s], observe)
    grads: tuple[Tensor | None, ...] | None = None
    for s in reversed(range(len(stages))):
        sent_back = backward(stages[s], s, grads, boundaries[s], observe)
        grads = tuple(None if grad is None else copied(grad) for grad in sent_back)


def forward(
    stage: Stage, s: int, inputs: Tensors, boundary: Boundary, observe: Observer
) -> Tensors:
    """F of one stage: what it sends on, nothing of the last."""
    boundary.add(inputs)

    def run() -> Tensors:
        outputs = stage.forward(0, inputs)
        sent = outputs if stage.loss is None else ()
        boundary.add(sent)
        return sent

    sent: Tensors = observe("F", s, boundary, run)
    return sent


def backward(
    stage: Stage,
    s: int,
    output_grads: tuple[Tensor | None, ...] | None,
    boundary: Boundary,
    observe: Observer,
) -> tuple[Tensor | None, ...]:
    """B of one stage, or I and W."""
    boundary.add(output_grads or ())

    def run() -> tuple[Tensor | None, ...]:
        grads = stage.backward(0, output_grads)
        boundary.add(grads)
        return grads

    grads: tuple[Tensor | None, ...] = observe("B", s, boundary, run)
    if stage.has_weight_pass:
        observe("W", s, boundary, lambda: stage.backward_weight(0))
    return grads
