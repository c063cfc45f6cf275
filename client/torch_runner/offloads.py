"""What autograd saves of each (stage, micro-batch), offloaded and reloaded on command."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, UntypedStorage

from client.torch_runner.copies import Copies, Parked
from client.torch_runner.errors import OffloadError
from client.torch_runner.private_names import storage_use_count

Key = tuple[int, int]
"""A stage and a micro-batch."""


class Offloads:
    """The saved tensors of forwards that ran under `saving`, by stage and micro-batch.

    Only storages that nothing but autograd refers to are moved: parameters, buffers, caches that
    the model keeps, inputs (views of the whole batch, or buffers that are received into) and
    outputs (whose send may be pending) are held by others and stay where they are.
    """

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        # Weakly: the graph alone decides how long a saved tensor lives.
        self._saved: dict[Key, list[weakref.ref[_Saved]]] = {}
        self._parked: dict[Key, Parked] = {}
        self._reloaded: weakref.WeakValueDictionary[Key, Parked] = weakref.WeakValueDictionary()

    def begin_step(self) -> None:
        """An iteration begins: nothing of the last one counts any more."""
        self._saved.clear()

    @contextmanager
    def saving(self, key: Key) -> Iterator[None]:
        """What autograd saves within belongs to this stage and micro-batch too."""
        saved = self._saved.setdefault(key, [])

        def pack(tensor: Tensor) -> _Saved:
            # Detached, for a saved output not to keep its own graph alive.
            own = _Saved(tensor.detach(), self._copies)
            saved.append(weakref.ref(own))
            return own

        with torch.autograd.graph.saved_tensors_hooks(pack, _Saved.unpacked):
            yield

    def offload(self, key: Key) -> int:
        """Begin to copy to the host; how many bytes this frees once the copy is over."""
        owned = self._owned(key)
        parked = Parked([storage for storage, _ in owned])
        for _, tensors in owned:
            for saved in tensors:
                saved.parked = parked
        self._copies.start_out(parked)
        self._parked[key] = parked
        self.release_finished()
        return sum(parked.sizes)

    def reload(self, key: Key) -> int:
        """Allocate what was offloaded and begin to copy it back; how many bytes that takes."""
        if key not in self._parked:
            raise OffloadError(f"Stage {key[0]} has offloaded nothing of micro-batch {key[1]}.")
        self.wait_for_offload(key)
        parked = self._reloaded[key] = self._parked.pop(key)
        self._copies.start_in(parked)
        parked.is_back = True
        return sum(parked.sizes)

    def release_finished(self) -> None:
        """Free what has been copied by now."""
        for parked in self._parked.values():
            if not parked.is_released and self._copies.is_out(parked):
                self._copies.finish_out(parked)

    def wait_for_offload(self, key: Key) -> None:
        """Have the computation come after an offload's end, and free what it moved.

        So are those that began before it: they are copied one after the other.
        """
        if key not in self._parked:
            return
        for earlier, parked in self._parked.items():
            if not parked.is_released:
                self._copies.finish_out(parked)
            if earlier == key:
                return

    def wait_for_reload(self, key: Key) -> None:
        """Have the computation come after a reload's end."""
        parked = self._reloaded.get(key)
        if parked is not None:
            self._copies.finish_in(parked)

    def synchronize(self) -> None:
        """Block until all computation and all copies so far are done."""
        self._copies.synchronize()

    def _owned(self, key: Key) -> list[tuple[UntypedStorage, list[_Saved]]]:
        """The storages that only this micro-batch's saved tensors refer to, with these."""
        by_storage: dict[int, list[_Saved]] = defaultdict(list)
        for own in filter(None, (reference() for reference in self._saved.get(key, ()))):
            by_storage[own.tensor.untyped_storage()._cdata].append(own)
        owned = []
        for address, tensors in by_storage.items():
            storage = tensors[0].tensor.untyped_storage()
            # Each tensor refers to it, and the Python object just made.
            if storage.nbytes() and storage_use_count(address) == len(tensors) + 1:
                owned.append((storage, tensors))
        return owned


class _Saved:
    """A saved tensor in place of itself."""

    __slots__ = ("__weakref__", "_copies", "_version", "parked", "tensor")

    def __init__(self, tensor: Tensor, copies: Copies) -> None:
        self.tensor = tensor
        self.parked: Parked | None = None
        self._version = tensor._version
        self._copies = copies

    def unpacked(self) -> Tensor:
        """The tensor; hooks switch autograd's own check for changes off, so it is made here."""
        if self.tensor._version != self._version:
            raise OffloadError(
                f"A tensor of shape {tuple(self.tensor.shape)} that the backward needs was changed "
                "in place since the forward. Change a copy instead."
            )
        if self.parked is not None:
            if not self.parked.is_back:
                raise OffloadError(
                    f"A tensor of shape {tuple(self.tensor.shape)} that the backward needs is "
                    "offloaded. Reload it first."
                )
            self._copies.finish_in(self.parked)
        return self.tensor
