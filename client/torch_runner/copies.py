"""Copies of storages to host memory and back: plain on a CPU, beside the computation on CUDA."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, UntypedStorage


@dataclass
class Parked:
    """Storages on their way to host memory, there, or on their way back.

    `copied_out` and `copied_in` are events of the streams that copy; None where copies are done
    at once.
    """

    storages: Sequence[UntypedStorage]
    sizes: list[int] = field(init=False)
    buffers: list[Tensor] = field(default_factory=list)
    copied_out: Any = None
    copied_in: Any = None
    is_released: bool = False
    is_back: bool = False

    def __post_init__(self) -> None:
        self.sizes = [storage.nbytes() for storage in self.storages]


class Copies(ABC):
    """One direction at a time, in the order of the calls; each a step that does not block."""

    @abstractmethod
    def start_out(self, parked: Parked) -> None:
        """Begin to copy to the host."""

    @abstractmethod
    def start_in(self, parked: Parked) -> None:
        """Allocate the storages again, and begin to copy back."""

    def is_out(self, parked: Parked) -> bool:
        """Whether the copy to the host has ended."""
        return parked.copied_out is None or bool(parked.copied_out.query())

    def finish_out(self, parked: Parked) -> None:
        """What the computation does from here on comes after the copy; free the storages."""
        self._computation_waits(parked.copied_out)
        for storage in parked.storages:
            # Freed by size: a reference that autograd keeps elsewhere would hold the bytes.
            storage.resize_(0)
        parked.is_released = True

    def finish_in(self, parked: Parked) -> None:
        """What the computation does from here on comes after the copy.

        Only from here on may the storages be freed, each as soon as autograd is done with it.
        """
        self._computation_waits(parked.copied_in)
        parked.storages = ()

    @abstractmethod
    def synchronize(self) -> None:
        """Block until everything so far is done."""

    @abstractmethod
    def _computation_waits(self, event: Any) -> None: ...


class CpuCopies(Copies):
    """Done at once, into plain memory."""

    def start_out(self, parked: Parked) -> None:
        parked.buffers = [_bytes_of(storage).clone() for storage in parked.storages]

    def start_in(self, parked: Parked) -> None:
        for storage, size, buffer in zip(
            parked.storages, parked.sizes, parked.buffers, strict=True
        ):
            storage.resize_(size)
            _bytes_of(storage).copy_(buffer)
        parked.buffers.clear()

    def synchronize(self) -> None:
        """Nothing is under way."""

    def _computation_waits(self, event: Any) -> None:
        """Nothing is under way."""


class CudaCopies(Copies):
    """A stream for each direction and pinned buffers. Untested until `scripts/gpu-check` passed.

    Copies begin after what the computation was given before them, so a storage is never read
    before it is written, nor its memory filled while something else still uses it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._out: Any = torch.cuda.Stream(device)
        self._in: Any = torch.cuda.Stream(device)
        self._pool: dict[int, list[tuple[Tensor, Any]]] = defaultdict(list)

    def start_out(self, parked: Parked) -> None:
        self._out.wait_event(self._computation().record_event())
        parked.buffers = [self._buffer(size) for size in parked.sizes]
        with torch.cuda.stream(self._out):
            for storage, buffer in zip(parked.storages, parked.buffers, strict=True):
                buffer.copy_(_bytes_of(storage), non_blocking=True)
        parked.copied_out = self._out.record_event()

    def start_in(self, parked: Parked) -> None:
        for storage, size in zip(parked.storages, parked.sizes, strict=True):
            storage.resize_(size)
        self._in.wait_event(self._computation().record_event())
        self._in.wait_event(parked.copied_out)
        with torch.cuda.stream(self._in):
            for storage, buffer in zip(parked.storages, parked.buffers, strict=True):
                _bytes_of(storage).copy_(buffer, non_blocking=True)
        parked.copied_in = self._in.record_event()
        for size, buffer in zip(parked.sizes, parked.buffers, strict=True):
            self._pool[size].append((buffer, parked.copied_in))
        parked.buffers.clear()

    def synchronize(self) -> None:
        torch.cuda.synchronize(self._device)

    def _computation_waits(self, event: Any) -> None:
        self._computation().wait_event(event)

    def _computation(self) -> Any:
        return torch.cuda.current_stream(self._device)

    def _buffer(self, size: int) -> Tensor:
        """A pinned buffer, of which the last copy that read it is over before the next writes."""
        if not self._pool[size]:
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)
        buffer, read = self._pool[size].pop(0)
        self._out.wait_event(read)
        return buffer


def copies_for(device: torch.device) -> Copies:
    """The way to copy that fits a device."""
    return CudaCopies(device) if device.type == "cuda" else CpuCopies()


def _bytes_of(storage: UntypedStorage) -> Tensor:
    """The storage as a tensor with a version of its own, so that copies are no changes to it."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
