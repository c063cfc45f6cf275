"""How many bytes of tensors are alive, now and at most since a mark."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Protocol, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CUDA_ALLOCATION_BYTES = 512
"""PyTorch's CUDA allocator hands out multiples of this (c10/cuda/CUDACachingAllocator.h)."""


class Meter(Protocol):
    """Bytes of tensors made while the meter is entered, and still alive."""

    @property
    def live_bytes(self) -> int:
        """Now."""

    @property
    def peak_bytes(self) -> int:
        """At most, since `mark`."""

    def mark(self) -> None:
        """Begin a new peak."""

    def bytes_of(self, tensors: Iterable[Tensor]) -> int:
        """What these tensors take of it, each storage once."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


def distinct_storages(tensors: Iterable[Tensor]) -> dict[int, int]:
    """Bytes of each storage behind these tensors, by its address: views count once."""
    storages = (tensor.untyped_storage() for tensor in tensors)
    return {storage._cdata: storage.nbytes() for storage in storages}


class StorageMeter(TorchDispatchMode):  # type: ignore[misc]
    """Counts every storage that an operation returns, until it is freed: of activations and
    gradients alike, made in a forward or by autograd.

    What a kernel allocates and frees inside itself is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self._alive: dict[int, int] = {}
        self._live = 0
        self._peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and count what it made."""
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._count(leaf.untyped_storage())
        return result

    def _count(self, storage: Any) -> None:
        key = storage._cdata
        if key in self._alive:
            return
        self._alive[key] = storage.nbytes()
        self._live += self._alive[key]
        self._peak = max(self._peak, self._live)
        weakref.finalize(storage, self._forget, key).atexit = False

    def _forget(self, key: int) -> None:
        self._live -= self._alive.pop(key)

    @property
    def live_bytes(self) -> int:
        """Now."""
        return self._live

    @property
    def peak_bytes(self) -> int:
        """At most, since `mark`."""
        return self._peak

    def mark(self) -> None:
        """Begin a new peak."""
        self._peak = self._live

    def bytes_of(self, tensors: Iterable[Tensor]) -> int:
        """What these tensors take of it, each storage once."""
        return sum(distinct_storages(tensors).values())


class CudaMeter:
    """What PyTorch's CUDA allocator has handed out, workspaces of kernels included.

    No GPU has run this yet.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    @property
    def live_bytes(self) -> int:
        """Now. Frees count when the host says so, as the allocator sees it."""
        return int(torch.cuda.memory_allocated(self._device))

    @property
    def peak_bytes(self) -> int:
        """At most, since `mark`."""
        return int(torch.cuda.max_memory_allocated(self._device))

    def mark(self) -> None:
        """Begin a new peak."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def bytes_of(self, tensors: Iterable[Tensor]) -> int:
        """What these tensors take of it, each storage once, rounded as the allocator does."""
        unit = CUDA_ALLOCATION_BYTES
        return sum(-(-size // unit) * unit for size in distinct_storages(tensors).values())


def meter_for(device: torch.device) -> Meter:
    """The meter of a device's memory."""
    return CudaMeter(device) if device.type == "cuda" else StorageMeter()
