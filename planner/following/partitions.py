"""Another number of layers on each stage of a pipeline that was measured.

A stage's times and sizes are those of its layers and, on the first and the last, of what they have
besides (embedding, head), which stays where it is. What one layer takes on a stage is measured on
the GPU that runs it, so that a slow GPU gets fewer layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from math import ceil
from statistics import median

from planner.following.telemetry import COMPUTE_TIMES, OFFLOAD_TIMES
from planner.pipeline.problem import PipelineProblem, Stage

_TIMES = (*COMPUTE_TIMES, *OFFLOAD_TIMES)
_SIZES = ("activation_bytes", "weight_grad_bytes", "offload_bytes")


@dataclass(frozen=True, slots=True)
class Layers:
    """What the stages are made of.

    `per_stage` counts the layers of each stage, in the order of the model, at least 1 each.
    `static_bytes` is what one layer takes of a GPU's memory all the time (parameters, gradients,
    optimizer states), which moves with it. `first_extra` and `last_extra` say how many layers the
    rest of the first and the last stage's work is worth; None = told from the other stages: what
    an end takes beyond their median per layer. On a slow GPU at an end that counts the slowness
    as staying, so that the gain of taking layers from it is told too low rather than too high.
    """

    per_stage: tuple[int, ...]
    static_bytes: int = 0
    first_extra: float | None = None
    last_extra: float | None = None


@dataclass(frozen=True, slots=True)
class _Share:
    """So many layers of a device on its stages, in their order, and what they take of its time in
    ns per micro-batch."""

    per_stage: tuple[int, ...]
    time_ns: int

    @property
    def layers(self) -> int:
        return sum(self.per_stage)


Combine = Callable[[int, int], int]


def repartitioned(
    one: PipelineProblem, layers: Layers, per_stage: Sequence[int]
) -> PipelineProblem:
    """A problem of one micro-batch with these layers on its stages, and the memory that their
    model states leave on each device. Workspaces, transfers and epilogues stay."""
    composed = _Composition(one, layers)
    first = [0, *accumulate(per_stage)]
    stages = tuple(
        replace(composed.stage(s, count), name=f"layers {first[s]}-{first[s] + count - 1}")
        for s, count in enumerate(per_stage)
    )
    more = [0] * len(one.devices)
    for stage, before, after in zip(one.stages, layers.per_stage, per_stage, strict=True):
        more[stage.device] += after - before
    devices = tuple(
        replace(device, activation_memory_bytes=composed.room_bytes(d, more[d]))
        for d, device in enumerate(one.devices)
    )
    return replace(one, stages=stages, devices=devices)


def balanced_partitions(
    one: PipelineProblem, layers: Layers, micro_batches: int
) -> list[tuple[int, ...]]:
    """Partitions whose slowest device takes less time per micro-batch than now, each the best
    within the memory that it keeps: for as many micro-batches as 1F1B holds at a device, and for
    one alone. Empty where there is none.

    `one` has one micro-batch. Exact over all partitions with at least a layer per stage: first the
    least slowest device by dynamic programming over devices and layers, then among those partitions
    the least sum of squared times, so that the rest is even. Where a device has several stages its
    layers are handed out evenly by time.
    """
    composed = _Composition(one, layers)
    used = [d for d, own in enumerate(one.stages_of_device) if own]
    used.sort(key=lambda d: one.stages_of_device[d][0])
    found = []
    for deep in (True, False):
        shares = [
            list(composed.shares(d, min(micro_batches, len(used) - place) if deep else 1))
            for place, d in enumerate(used)
        ]
        chosen = _even(shares, sum(layers.per_stage))
        if chosen is not None:
            counts = [0] * len(one.stages)
            for d, share in zip(used, chosen, strict=True):
                for s, count in zip(one.stages_of_device[d], share.per_stage, strict=True):
                    counts[s] = count
            found.append(tuple(counts))
    return list(dict.fromkeys(found))


def _even(shares: Sequence[Sequence[_Share]], layers: int) -> list[_Share] | None:
    """Of each device one share, so that they have all layers: the least largest time, then the
    least sum of squares."""
    longest = _least(shares, layers, max)
    if longest is None:
        return None
    longest_ns = max(share.time_ns for share in longest)
    within = [[share for share in own if share.time_ns <= longest_ns] for own in shares]
    return _least(within, layers, lambda value, time_ns: value + time_ns**2)


def _least(
    shares: Sequence[Sequence[_Share]], layers: int, combine: Combine
) -> list[_Share] | None:
    """The choice of one share per device that has all layers and the least combined value.

    `best[d][k]` is the least value of the first d devices with k layers; the choice is read back
    from the end. A value must not fall when more devices are combined into it.
    """
    best: list[dict[int, int]] = [{0: 0}]
    for own in shares:
        reached: dict[int, int] = {}
        for already, value in best[-1].items():
            for share in own:
                count = already + share.layers
                combined = combine(value, share.time_ns)
                if count <= layers and combined < reached.get(count, combined + 1):
                    reached[count] = combined
        best.append(reached)
    if layers not in best[-1]:
        return None
    chosen: list[_Share] = []
    left = layers
    for own, before, after in zip(shares[::-1], best[-2::-1], best[:0:-1], strict=True):
        share = next(
            share
            for share in own
            if left - share.layers in before
            and combine(before[left - share.layers], share.time_ns) == after[left]
        )
        chosen.append(share)
        left -= share.layers
    return chosen[::-1]


class _Composition:
    """A measured pipeline as layers and what its ends have besides."""

    def __init__(self, one: PipelineProblem, layers: Layers) -> None:
        self._one, self._layers = one, layers
        self._per_layer = {name: self._one_layer(name) for name in (*_TIMES, *_SIZES)}
        self._slowest_ns = max(
            sum(one.stages[s].compute_ns(0) for s in own) for own in one.stages_of_device
        )
        self.stage = cache(self._stage)

    def _one_layer(self, name: str) -> list[float]:
        """Of each stage what one of its layers takes."""
        counts = self._layers.per_stage
        values: list[int] = [getattr(stage, name)[0] for stage in self._one.stages]
        each = [value / count for value, count in zip(values, counts, strict=True)]
        usual = median(each[1:-1]) if len(each) > 2 else min(each)
        for place, extra in ((0, self._layers.first_extra), (-1, self._layers.last_extra)):
            if extra is not None and name in COMPUTE_TIMES:
                each[place] = values[place] / (counts[place] + extra)
            else:
                each[place] = min(each[place], usual)
        return each

    def _stage(self, number: int, count: int) -> Stage:
        """A stage with so many layers."""
        stage = self._one.stages[number]
        more = count - self._layers.per_stage[number]

        def changed(name: str) -> tuple[int]:
            value: int = getattr(stage, name)[0]
            exact = value + more * self._per_layer[name][number]
            # What takes no time or no memory is no operation, and stays none.
            return (max(int(value > 0), round(exact) if name in _TIMES else ceil(exact)),)

        return replace(
            stage,
            forward_ns=changed("forward_ns"),
            backward_input_ns=changed("backward_input_ns"),
            backward_weight_ns=changed("backward_weight_ns"),
            offload_ns=changed("offload_ns"),
            reload_ns=changed("reload_ns"),
            activation_bytes=changed("activation_bytes"),
            weight_grad_bytes=changed("weight_grad_bytes"),
            offload_bytes=changed("offload_bytes"),
        )

    def room_bytes(self, device: int, more: int) -> int | None:
        """What a device has for activations with so many more layers on it; below 0 where it
        cannot even hold their states."""
        limit = self._one.devices[device].activation_memory_bytes
        return None if limit is None else limit - more * self._layers.static_bytes

    def shares(self, device: int, held: int) -> Iterator[_Share]:
        """The numbers of layers with which a device is faster than the slowest now and has memory
        for `held` micro-batches, ascending."""
        own = self._one.stages_of_device[device]
        now = sum(self._layers.per_stage[s] for s in own)
        counts = [1] * len(own)
        while sum(counts) <= sum(self._layers.per_stage):
            stages = [self.stage(s, count) for s, count in zip(own, counts, strict=True)]
            time_ns = sum(stage.compute_ns(0) for stage in stages)
            if time_ns >= self._slowest_ns:
                return
            room = self.room_bytes(device, sum(counts) - now)
            needed = held * sum(stage.activation_bytes[0] for stage in stages)
            needed += max(stage.backward_allocation_bytes(0) for stage in stages)
            if room is None or needed <= room:
                yield _Share(tuple(counts), time_ns)
            grown = [self.stage(s, count + 1) for s, count in zip(own, counts, strict=True)]
            place = min(range(len(own)), key=lambda k: (grown[k].compute_ns(0), k))
            counts[place] += 1
