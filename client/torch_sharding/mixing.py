"""What a model computes between the modules that a plan splits: DTensors beside plain tensors.

Models make tensors of their own while they run (positions, masks, tables of angles), every process
the same ones, and mix them with activations that are DTensors, which PyTorch refuses. While
`Mixing` is on, a plain tensor that meets a DTensor is taken as whole on every device. Attention,
and products of matrices with batch and heads, are run on each device's own part: PyTorch does not
multiply matrices that are split by batch and by heads at once.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_any, tree_map

ATTENTION = torch.nn.functional.scaled_dot_product_attention
PRODUCTS = frozenset({torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__})
ACCESSORS = frozenset({"__get__", "__set__"})
"""Of attributes such as `grad`, which are read and written as they are."""


def replicated(tensor: torch.Tensor, mesh: DeviceMesh) -> DTensor:
    """A tensor that every process has, as one that is whole on every device of the mesh. Its
    gradient is added up over them."""
    if isinstance(tensor, DTensor):
        return tensor
    return DTensor.from_local(tensor, mesh, (Replicate(),) * mesh.ndim, run_check=False)


def is_split(value: Any) -> bool:
    """Whether something is a DTensor, whole or not."""
    return isinstance(value, DTensor)


class _Thread(threading.local):
    """Modes are a thread's own; backward passes have another one on GPUs."""

    is_mixing = False


_THREAD = _Thread()


class Mixing(TorchFunctionMode):  # type: ignore[misc]
    """While it is on, functions take DTensors and plain tensors together."""

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self._mesh = mesh

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        accesses = getattr(func, "__name__", "") in ACCESSORS
        if accesses or not tree_any(is_split, (args, kwargs)):
            return func(*args, **kwargs)
        args, kwargs = tree_map(self._taken, (args, kwargs))
        if func is ATTENTION:
            return _attend(*args, **kwargs)
        if func in PRODUCTS and "out" not in kwargs:
            return _multiply(*args, **kwargs)
        return func(*args, **kwargs)

    def _taken(self, value: Any) -> Any:
        return replicated(value, self._mesh) if isinstance(value, torch.Tensor) else value


def mixed(forward: Callable[..., Any], mesh: DeviceMesh) -> Callable[..., Any]:
    """A module's `forward` while `Mixing` is on. Each module's, since a checkpoint computes a part
    of the model anew by itself."""

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        if _THREAD.is_mixing:
            return forward(*args, **kwargs)
        _THREAD.is_mixing = True
        try:
            with Mixing(mesh):
                return forward(*args, **kwargs)
        finally:
            _THREAD.is_mixing = False

    return run


def _attend(
    query: DTensor,
    key: DTensor,
    value: DTensor,
    attn_mask: DTensor | None = None,
    *others: Any,
    **settings: Any,
) -> DTensor:
    """A device attends with its batch and heads, but needs all of their sequence."""
    parts = _common_parts((query, key, value))
    tensors, placements = [query, key, value], [parts] * 3
    if attn_mask is not None:
        tensors.append(attn_mask)
        placements.append(_broadcast(parts, attn_mask, query.ndim))

    def attend(*local: torch.Tensor) -> torch.Tensor:
        mask = local[3] if len(local) > 3 else None
        return ATTENTION(*local[:3], mask, *others, **settings)

    return _on_parts(attend, tensors, placements, parts)


def _multiply(input: DTensor, other: DTensor) -> DTensor:  # noqa: A002
    """A device multiplies the matrices of its batch and heads, where there are both. Arguments are
    named as `torch.matmul`'s."""
    if not input.ndim == other.ndim > 3:
        return torch.matmul(input, other)
    parts = _common_parts((input, other))
    return _on_parts(torch.matmul, (input, other), [parts, parts], parts)


def _common_parts(tensors: Sequence[DTensor]) -> list[Placement]:
    """How all can be split alike along dimensions before the last two, as the first ones are that
    are split so. Heads of keys may be fewer, if each device gets whole groups."""
    mesh = tensors[0].device_mesh
    blocks = [1] * (tensors[0].ndim - 2)
    placements: list[Placement] = []
    for number in range(mesh.ndim):
        found = next(
            (
                each.placements[number].dim
                for each in tensors
                if isinstance(each.placements[number], Shard)
                and each.placements[number].dim < len(blocks)
            ),
            None,
        )
        wanted = 1 if found is None else blocks[found] * mesh.size(number)
        if found is None or any(each.shape[found] % wanted for each in tensors):
            placements.append(Replicate())
        else:
            blocks[found] = wanted
            placements.append(Shard(found))
    return placements


def _broadcast(parts: Sequence[Placement], mask: DTensor, dimensions: int) -> list[Placement]:
    """The mask's part that belongs to these parts: whole where it is the same for all."""
    missing = dimensions - mask.ndim
    own: list[Placement] = []
    for each in parts:
        at = each.dim - missing if isinstance(each, Shard) else -1
        own.append(Shard(at) if at >= 0 and mask.shape[at] > 1 else Replicate())
    return own


def _on_parts(
    function: Callable[..., torch.Tensor],
    tensors: Sequence[DTensor],
    placements: Sequence[Sequence[Placement]],
    given: Sequence[Placement],
) -> DTensor:
    local = (
        each.redistribute(placements=own).to_local()
        for each, own in zip(tensors, placements, strict=True)
    )
    output = function(*local)
    return DTensor.from_local(output, tensors[0].device_mesh, given, run_check=False)
