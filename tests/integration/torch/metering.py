"""Counts what a rank's activations take while PyTorch runs its operations, by every storage that
an operation makes and as long as it lives. Needs nothing but PyTorch, and knows of no runner."""

import weakref
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def storages(values):
    """Of all tensors in nested values."""
    return [own.untyped_storage() for own in tree_leaves(values) if isinstance(own, torch.Tensor)]


class StorageMeter(TorchDispatchMode):
    """Every storage that an operation has made and that is alive, by what it holds now.

    `is_offloading`: what is made meanwhile is host memory, which on a CPU nothing else tells from
    the other.
    """

    def __init__(self):
        super().__init__()
        self.alive = weakref.WeakValueDictionary()
        self.is_offloading = False
        self.peak = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {own._cdata for own in storages((args, kwargs))}
        for storage in storages(result):
            if storage._cdata not in given and not self.is_offloading:
                self.alive[storage._cdata] = storage
        if self.peak is not None:
            self.peak = max(self.peak, self.used())
        return result

    def used(self, left_out=()):
        """Bytes of all but these storages."""
        keys = {own._cdata for own in left_out}
        return sum(own.nbytes() for key, own in list(self.alive.items()) if key not in keys)


class Watch:
    """Live bytes of a rank's activations after each operation, and at most within each backward.

    What lies at the borders of stages is left out, as the profile leaves it out: inputs, outputs
    and their gradients, for which PyTorch holds buffers.
    """

    def __init__(self, stages):
        self.stages = stages
        self.meter = StorageMeter()
        self.levels, self.peaks = [], []
        self.sent = weakref.WeakValueDictionary()
        """What stages have given to be sent, which PyTorch may hold until the end of the step."""
        self.running = None

    def border(self):
        return [*storages(list(self._held())), *self.sent.values()]

    def _held(self):
        for stage in self.stages:
            for output, inputs in stage.fwd_cache.values():
                yield from () if stage.is_last else output
                yield from inputs
            for infos in (*stage.args_recv_info.values(), *stage.grad_recv_info.values()):
                for info in infos:
                    if info.buffer is not None:
                        yield info.buffer

    def send(self, values):
        self.sent.update((own._cdata, own) for own in storages(values))

    def end_of_operation(self):
        """Called when the next one begins, and at the end of the step."""
        if self.running is not None:
            self.levels.append((self.running, self.meter.used(self.border())))
        self.running = None

    @contextmanager
    def operation(self, kind, name):
        """Encloses one; of a backward what it takes meanwhile counts too, and in it the gradient
        that is sent afterwards."""
        self.end_of_operation()
        self.running = name
        self.meter.is_offloading = kind == "O"
        if kind in "IB":
            at_border = self.meter.used() - self.meter.used(self.border())
            self.meter.peak = 0
        yield
        if kind in "IB":
            self.peaks.append((name, self.meter.peak - at_border))
            self.meter.peak = None
        self.meter.is_offloading = False
