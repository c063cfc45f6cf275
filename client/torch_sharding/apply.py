"""Splits a module's weights and activations as a `dtensor-json` export says.

The document has `mesh` (`sizes` and `names` of its dimensions) and `modules`, each with its `path`
(`*` stands for any layer's number), and the placements of its `input`, its `output` and its
`parameters`, one per dimension of the mesh: `replicate` or `shard(dimension)`.

Every weight becomes a DTensor, whole on every device where the plan does not name its module. Then
all that the module computes is on DTensors, and what lies between the plan's modules follows the
layouts of what it reads. Modules that compute attention from query, key and value are run on each
device's own part (`attention`): PyTorch does not multiply matrices that are split by batch and by
heads at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
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


def apply_plan(
    module: nn.Module, plan: Document, mesh: DeviceMesh, attention: Iterable[str] = ()
) -> nn.Module:
    """Split `module` in place by a plan, and return it.

    Every process has to have the same weights before. Inputs are tensors that all processes have
    whole, or DTensors; the output is a DTensor (`full_tensor()` makes it whole). Gradients lie as
    the weights do. `attention` names the modules (`*` for any layer) that take query, key and
    value of shape [batch, heads, sequence, features].

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
    cores = {path for pattern in attention for path in _matching(module, pattern)}
    _distribute_weights(module, mesh, split)
    for path, entry in split.items():
        _bring_activations(module.get_submodule(path), mesh, entry)
    for path in cores:
        core = module.get_submodule(path)
        core.forward = _on_own_parts(core.forward)
    _take_whole_inputs(module, mesh)
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


def _distribute_weights(module: nn.Module, mesh: DeviceMesh, split: Mapping[str, Document]) -> None:
    """Make DTensors of all weights and buffers; one that modules share becomes one again, split as
    the plan says of the first module that it names."""
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
        for name, buffer in [*own.named_buffers(recurse=False)]:
            setattr(own, name, distribute_tensor(buffer, mesh, whole))


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

    def bring_input(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (_laid(inputs[0], mesh, taken), *inputs[1:])

    def bring_output(_: nn.Module, _inputs: tuple[Any, ...], output: Any) -> Any:
        return _laid(output, mesh, given)

    module.register_forward_pre_hook(bring_input)
    module.register_forward_hook(bring_output)


def _laid(tensor: torch.Tensor, mesh: DeviceMesh, wanted: Placements) -> DTensor:
    """The tensor in the wanted placements; one that is no DTensor is whole on every device."""
    if not isinstance(tensor, DTensor):
        tensor = DTensor.from_local(tensor, mesh, (Replicate(),) * mesh.ndim, run_check=False)
    placements = [
        Shard(each.dim % tensor.ndim) if isinstance(each, Shard) else each for each in wanted
    ]
    return tensor.redistribute(placements=placements)


def _reduce_gradient(parameter: torch.Tensor) -> None:
    """Add up what the devices have of a weight's gradient, into the weight's own placements."""
    assert isinstance(parameter, DTensor)
    if isinstance(parameter.grad, DTensor):
        parameter.grad = parameter.grad.redistribute(placements=parameter.placements)


def _on_own_parts(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(query: Any, key: Any, value: Any, *others: Any, **settings: Any) -> Any:
        if not isinstance(query, DTensor):
            return forward(query, key, value, *others, **settings)
        # A device can attend with its batch and heads, but needs all of their sequence.
        placements = tuple(
            each if each.is_shard(0) or each.is_shard(1) else Replicate()
            for each in query.placements
        )
        mesh = query.device_mesh
        parts = (
            each.redistribute(placements=placements).to_local() for each in (query, key, value)
        )
        output = forward(*parts, *others, **settings)
        return DTensor.from_local(output, mesh, placements, run_check=False)

    return run


def _take_whole_inputs(module: nn.Module, mesh: DeviceMesh) -> None:
    whole = (Replicate(),) * mesh.ndim

    def taken(value: Any) -> Any:
        is_whole = isinstance(value, torch.Tensor) and not isinstance(value, DTensor)
        return _laid(value, mesh, whole) if is_whole else value

    def distribute(
        _: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return tuple(map(taken, inputs)), {name: taken(value) for name, value in named.items()}

    module.register_forward_pre_hook(distribute, with_kwargs=True)
