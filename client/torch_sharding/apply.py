"""Splits a module's weights and activations as a `dtensor-json` export says.

The document has `mesh` (`sizes` and `names` of its dimensions) and `modules`, each with its `path`
(`*` stands for any layer's number), and the placements of its `input`, its `output` and its
`parameters`, one per dimension of the mesh: `replicate` or `shard(dimension)`.

Every weight becomes a DTensor, whole on every device where the plan does not name its module, and
what lies between the plan's modules follows the layouts of what it reads (`mixing`). Buffers and
tensors that the model makes itself stay plain tensors, which every process has. Parts of the model
with weights in which the plan names no module, such as experts, are run by every process on plain
whole tensors.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
)
from torch.utils._pytree import tree_map

from client.torch_sharding.mixing import mixed, replicated

FORM = "loadmaster-dtensor 1"
_SHARD = re.compile(r"shard\((-?\d+)\)")
Document = Mapping[str, Any]
Placements = tuple[Placement, ...]


class WrongPlan(ValueError):
    """The document is no plan for this module; the message says what is wrong and what to do."""


def device_mesh(plan: Document, device_type: str = "cuda") -> DeviceMesh:
    """The mesh that a plan is made for, of all processes. Raises `WrongPlan`."""
    _check_form(plan)
    return init_device_mesh(
        device_type, tuple(plan["mesh"]["sizes"]), mesh_dim_names=tuple(plan["mesh"]["names"])
    )


def apply_plan(module: nn.Module, plan: Document, mesh: DeviceMesh) -> nn.Module:
    """Split `module` in place by a plan, and return it.

    Every process has to have the same weights before. Inputs are tensors that all processes have
    whole, or DTensors. Outputs are DTensors (`full_tensor()` makes them whole), single numbers such
    as a loss plain tensors. Gradients lie as the weights do. The plan's `not_expressed` says what
    of it is not done.

    Raises `WrongPlan` where the mesh is another one or a path names no module.
    """
    _check_form(plan)
    if list(mesh.shape) != list(plan["mesh"]["sizes"]):
        raise WrongPlan(
            f"The mesh is {tuple(mesh.shape)}, the plan's {tuple(plan['mesh']['sizes'])}: make it "
            "with device_mesh(plan)."
        )
    split: dict[str, Document] = {}
    for entry in plan["modules"]:
        for path in _matching(module, entry["path"]):
            _check_kind(path, module.get_submodule(path), entry)
            split[path] = entry
    _distribute_weights(module, mesh, split)
    for path, entry in split.items():
        _bring_activations(module.get_submodule(path), mesh, entry)
    around = set(_around(split))
    for path, own in module.named_modules():
        if path in around:
            own.forward = mixed(own.forward, mesh)
        elif path not in split and path.rpartition(".")[0] in around and _has_weights(own):
            _run_whole(own)
    module.register_forward_hook(_give_results)
    return module


def _check_form(plan: Document) -> None:
    if plan.get("format") != FORM:
        raise WrongPlan(f"The document's format is {plan.get('format')!r}; this reads {FORM!r}.")


def _matching(module: nn.Module, pattern: str) -> list[str]:
    parts = (r"\d+" if part == "*" else re.escape(part) for part in pattern.split("."))
    expression = re.compile(r"\.".join(parts))
    found = [path for path, _ in module.named_modules() if expression.fullmatch(path)]
    if not found:
        raise WrongPlan(f"There is no module {pattern}: rename it in the plan, or remove it there.")
    return found


def _check_kind(path: str, module: nn.Module, entry: Document) -> None:
    if entry["kind"] == "linear" and not isinstance(module, nn.Linear):
        raise WrongPlan(
            f"{path} is a {type(module).__name__}, whose weight may lie otherwise than that of "
            "nn.Linear, [output features, input features]: put an nn.Linear there."
        )


def _placements(names: Iterable[str]) -> Placements:
    def placement(name: str) -> Placement:
        match = _SHARD.fullmatch(name)
        return Shard(int(match[1])) if match else Replicate()

    return tuple(map(placement, names))


def _around(split: Iterable[str]) -> Iterator[str]:
    """The modules that contain those of the plan, the model itself ("") among them."""
    for path in split:
        while path:
            path = path.rpartition(".")[0]
            yield path


def _has_weights(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _distribute_weights(module: nn.Module, mesh: DeviceMesh, split: Mapping[str, Document]) -> None:
    """Make DTensors of all weights; one that modules share becomes one again, split as the plan
    says of the first module that it names."""
    whole = (Replicate(),) * mesh.ndim
    made: dict[nn.Parameter, nn.Parameter] = {}
    # Those that the plan names first: a weight that is shared is split as it says.
    for path, own in sorted(module.named_modules(), key=lambda pair: pair[0] not in split):
        placed = split[path]["parameters"] if path in split else {}
        for name, parameter in [*own.named_parameters(recurse=False, remove_duplicate=False)]:
            if parameter not in made:
                wanted = _placements(placed[name]) if name in placed else whole
                made[parameter] = _distributed(parameter, mesh, wanted)
            own.register_parameter(name, made[parameter])


def _distributed(parameter: nn.Parameter, mesh: DeviceMesh, wanted: Placements) -> nn.Parameter:
    split = nn.Parameter(
        distribute_tensor(parameter, mesh, wanted), requires_grad=parameter.requires_grad
    )
    if split.requires_grad:
        split.register_post_accumulate_grad_hook(_reduce_gradient)
    return split


def _bring_activations(module: nn.Module, mesh: DeviceMesh, entry: Document) -> None:
    """Hooks that bring a module's input and output to their placements."""
    taken, given = _placements(entry["input"]), _placements(entry["output"])

    def bring_input(
        _: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if inputs:
            return (_laid(inputs[0], mesh, taken), *inputs[1:]), named
        first = next(iter(named))
        return (), {**named, first: _laid(named[first], mesh, taken)}

    def bring_output(_: nn.Module, _inputs: tuple[Any, ...], output: Any) -> Any:
        return _laid(output, mesh, given)

    module.forward = mixed(module.forward, mesh)
    module.register_forward_pre_hook(bring_input, with_kwargs=True)
    module.register_forward_hook(bring_output)


def _laid(tensor: torch.Tensor, mesh: DeviceMesh, wanted: Placements) -> DTensor:
    """The tensor in the wanted placements; one that is no DTensor is whole on every device."""
    placements = [
        Shard(each.dim % tensor.ndim) if isinstance(each, Shard) else each for each in wanted
    ]
    return replicated(tensor, mesh).redistribute(placements=placements)


def _run_whole(module: nn.Module) -> None:
    """Give a module whole plain tensors, for its weights too. Every process computes all of it, and
    of its weights' gradients."""
    forward = module.forward

    @functools.wraps(forward)
    def run(*inputs: Any, **named: Any) -> Any:
        inputs, named = tree_map(_whole, (inputs, named))
        with _whole_weights(module):
            return forward(*inputs, **named)

    module.forward = run


@contextmanager
def _whole_weights(module: nn.Module) -> Iterator[None]:
    kept = [(own, dict(own._parameters)) for own in module.modules()]
    try:
        for own, weights in kept:
            own._parameters.update({name: _whole(weight) for name, weight in weights.items()})
        yield
    finally:
        for own, weights in kept:
            own._parameters.update(weights)


def _whole(value: Any) -> Any:
    return value.full_tensor() if isinstance(value, DTensor) else value


def _give_results(_: nn.Module, _inputs: tuple[Any, ...], output: Any) -> Any:
    """Nothing that is still to be added up leaves the model, and single numbers are plain."""

    def given(value: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        if value.ndim == 0:
            return value.full_tensor()
        placements = [Replicate() if each.is_partial() else each for each in value.placements]
        return value.redistribute(placements=placements)

    return tree_map(given, output)


def _reduce_gradient(parameter: torch.Tensor) -> None:
    """Add up what the devices have of a weight's gradient, into the weight's own placements."""
    assert isinstance(parameter, DTensor)
    if isinstance(parameter.grad, DTensor):
        parameter.grad = parameter.grad.redistribute(placements=parameter.placements)
