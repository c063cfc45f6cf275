"""What is profiled: a factory of the user's, found by name, and the pipeline that it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from client.errors import InputError
from client.factories import called, load_factory

CONTRACT = (
    "The factory takes nothing and returns (stages, micro_batch, loss): a list of nn.Module or one "
    "nn.Sequential, a tensor or a tuple of tensors, and a function from the last stage's output to "
    "one number."
)

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Pipeline:
    """A pipeline to profile: the stages in order, one micro-batch for the first, and the loss of
    the last one's output."""

    name: str
    stages: tuple[nn.Module, ...]
    micro_batch: Tensors
    loss: Callable[..., Tensor]


def load_pipeline(target: str, stages: int, device: torch.device) -> Pipeline:
    """Call the factory that `FILE.py:FACTORY` or `MODULE:FACTORY` names, tensors being made on
    `device`, and check what it returns (`CONTRACT`).

    Raises `InputError` that says what is wrong with the target or with what it returned.
    """
    factory = load_factory(target)
    with device:
        made = called(target, factory, CONTRACT)
    if not isinstance(made, tuple) or len(made) != 3:
        raise InputError(target, f"returned {_words(made)}.", CONTRACT)
    modules, micro_batch, loss = made
    inputs = (micro_batch,) if isinstance(micro_batch, Tensor) else micro_batch
    if not (
        isinstance(inputs, tuple | list) and inputs and all(isinstance(x, Tensor) for x in inputs)
    ):
        raise InputError(target, f"returned {_words(micro_batch)} as micro-batch.", CONTRACT)
    if not callable(loss):
        raise InputError(target, f"returned {_words(loss)} as loss.", CONTRACT)
    return Pipeline(
        name=target.rpartition(":")[2],
        stages=tuple(stage.to(device) for stage in _stages(modules, stages, target)),
        micro_batch=tuple(x.to(device) for x in inputs),
        loss=loss,
    )


def cut(model: nn.Sequential, stages: int) -> list[nn.Sequential]:
    """Consecutive parts of as equal numbers of modules as possible, the larger ones first.

    Raises `ValueError` if there are fewer modules than stages.
    """
    modules = list(model)
    if len(modules) < stages:
        raise ValueError(f"{len(modules)} modules cannot be cut into {stages} stages")
    size, larger = divmod(len(modules), stages)
    ends = [size * s + min(s, larger) for s in range(stages + 1)]
    return [nn.Sequential(*modules[a:b]) for a, b in pairwise(ends)]


def _stages(modules: Any, stages: int, target: str) -> Sequence[nn.Module]:
    if isinstance(modules, nn.Sequential):
        if len(modules) < stages:
            raise InputError(
                "--stages",
                f"{stages} is more than the {len(modules)} modules of the nn.Sequential.",
                "Give fewer stages, or return the stages as a list.",
            )
        return cut(modules, stages)
    if not isinstance(modules, list | tuple | nn.ModuleList) or not all(
        isinstance(module, nn.Module) for module in modules
    ):
        raise InputError(target, f"returned {_words(modules)} as stages.", CONTRACT)
    if len(modules) != stages:
        raise InputError(
            "--stages",
            f"{stages} is not the number of stages in the list that {target} returned, "
            f"{len(modules)}.",
            "Give that number, or return one nn.Sequential to be cut.",
        )
    return list(modules)


def _words(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"{len(value)} values ({', '.join(type(entry).__name__ for entry in value)})"
    return f"an object of type {type(value).__name__}"
