"""Runs exported schedules with offloads through the runner, and measures memory independently."""

import weakref
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from client.torch_runner import build_runtime, load_schedule, stage_for
from tests.integration.torch import model, stock


def storages(values):
    """Of all tensors in nested values."""
    return [own.untyped_storage() for own in tree_leaves(values) if isinstance(own, torch.Tensor)]


class StorageMeter(TorchDispatchMode):
    """Every storage that an operation has made and that is alive, by what it holds now."""

    def __init__(self):
        super().__init__()
        self.alive = weakref.WeakValueDictionary()
        self.peak = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {own._cdata for own in storages((args, kwargs))}
        for storage in storages(result):
            if storage._cdata not in given:
                self.alive[storage._cdata] = storage
        if self.peak is not None:
            self.peak = max(self.peak, self.used())
        return result

    def used(self, left_out=()):
        keys = {own._cdata for own in storages(list(left_out))}
        return sum(own.nbytes() for key, own in list(self.alive.items()) if key not in keys)


class Watch:
    """Live bytes of a rank's activations after each operation, and at most within each backward.

    What lies at the borders of stages is left out, as the profile leaves it out: inputs, outputs
    and their gradients, for which PyTorch holds buffers. So is what is offloaded: on a CPU host
    memory is the same memory.
    """

    def __init__(self, stages):
        self.stages = stages
        self.meter = StorageMeter()
        self.levels, self.peaks = [], []
        self.running = None

    def border(self):
        for parked in self.stages[0].executor._offloads._parked.values():
            yield from parked.buffers
        for stage in self.stages:
            for output, inputs in stage.fwd_cache.values():
                yield from () if stage.is_last else output
                yield from inputs
            for infos in (*stage.args_recv_info.values(), *stage.grad_recv_info.values()):
                for info in infos:
                    if info.buffer is not None:
                        yield info.buffer

    def end_of_operation(self):
        """Called when the next one begins, and at the end of the step."""
        if self.running is not None:
            self.levels.append((str(self.running), self.meter.used(self.border())))
        self.running = None

    def attach(self, executor):
        plain = executor.running

        @contextmanager
        def running(action):
            self.end_of_operation()
            self.running = action
            with plain(action):
                if action.kind in "IB":
                    with self.within_backward(action):
                        yield
                else:
                    yield

        executor.running = running

    @contextmanager
    def within_backward(self, action):
        """A backward's workspace counts too, and in it the gradient that is sent afterwards."""
        at_border = self.meter.used() - self.meter.used(self.border())
        self.meter.peak = 0
        yield
        self.peaks.append((str(action), self.meter.peak - at_border))
        self.meter.peak = None


def run(case, rank):
    """Two steps: gradients and losses of the first, and the bytes of the second."""
    schedule = load_schedule(case["path"])
    layers = case["layers"]
    modules = model.build(layers)
    own = {index: modules[index] for index in schedule.stages_of(rank)}
    stages = [stage_for(schedule, i, own[i], "cpu", split=case["split"]) for i in own]
    runtime = build_runtime(schedule, stages, model.loss)
    last = len(layers) - 1
    losses = []
    stock.feed(runtime, own, last, schedule.micro_batches, losses if last in own else None)
    result = stock.compare(layers, own, losses, schedule.micro_batches)
    # By now gradients of parameters and buffers are there.
    watch = Watch(stages)
    watch.attach(stages[0].executor)
    with watch.meter:
        stock.feed(runtime, own, last, schedule.micro_batches, None)
        watch.end_of_operation()
    return {**result, "levels": watch.levels, "peaks": watch.peaks}
