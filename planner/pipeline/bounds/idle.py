"""Idle time that memory forces on a device while the pipeline fills and drains.

For each device with a memory limit C, with all its work within the window:

Fill. No B of the device can start before `first_backward`. Until then nothing is freed, so the F
that start before it hold at most C bytes, and what its link can have carried away by then. If
they take at most `before`, then

    length >= first_backward + work - before + epilogue.

Drain. When the device's last F starts, the B and W that are still to run, beside that
micro-batch's own, are those whose bytes fit beside it. If they take at most `pending`, the last F
starts no sooner than head + work - own - pending (own: that F and its micro-batch's B and W
here); from there the micro-batch must run to the last stage and back.

Both. If the F of the device don't all fit before `first_backward`, the last one starts after it,
and between lies all the work but `before`, `pending` and `own`.

Tail. When the device's last B ends, the W still to run are its own and those whose late bytes fit
beside it; all other work lies before, and the way back to the base stage after it.

What can be offloaded counts as away beside the last F. Under free order the last F (or B) is any
micro-batch's, whichever makes the bound least. Source: the bubbles of the memory-limited schedules
in "Zero Bubble Pipeline Parallelism" (Qi et al., 2023), counted per device; the best choice of what
runs before, and of what waits, is bounded by the fractional knapsack (Dantzig, 1957).

Of micro-batches that are all alike under fixed order a window of one of them does: the earliest
starts that count are of the first, what follows is of the last, and the rest are sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from math import gcd
from typing import Any

from planner.pipeline.bounds.stage_memory import StageMemory
from planner.pipeline.bounds.window import Window
from planner.pipeline.names import BoundName
from planner.pipeline.problem import Stage

FILL, DRAIN, BOTH, TAIL = (
    BoundName.FILL_IDLE,
    BoundName.DRAIN_IDLE,
    BoundName.FILL_AND_DRAIN_IDLE,
    BoundName.TAIL,
)


def idle_bounds_ns(window: Window, repeats: int = 1) -> dict[str, int]:
    """The four bounds on the window's length; 0 where no device has a memory limit.

    `repeats` is above 1 only for a window of one micro-batch under fixed order: the bounds are
    those of so many like it.
    """
    best: dict[str, int] = dict.fromkeys((FILL, DRAIN, BOTH, TAIL), 0)
    for d in window.stages_of_device:
        if window.problem.devices[d].activation_memory_bytes is not None:
            for name, value in _DeviceIdle(window, d, repeats).bounds_ns().items():
                best[name] = max(best[name], value)
    return best


def most_value(items: Iterable[tuple[int, int]], room: int, repeats: int = 1) -> int:
    """At least the most value of `items` (value, weight), each there `repeats` times, within
    `room`.

    The Lagrangian bound r room + sum of max(0, value - r weight), valid for every r >= 0; with
    the ratio r of the item that no longer fits whole it is the fractional knapsack. What any
    choice weighs is a multiple of the weights' divisor, so `room` counts as one.
    """
    counts = {item: count * repeats for item, count in Counter(items).items()}
    free = sum(value * count for (value, weight), count in counts.items() if not weight)
    weighing = [item for item in counts if item[1]]
    unit = gcd(*(weight for _, weight in weighing)) or 1
    room = max(0, room) // unit * unit
    weighing.sort(key=lambda item: -item[0] / item[1])
    left = room
    for worth, size in weighing:
        left -= size * counts[worth, size]
        if left < 0:
            gains = (
                max(0, value * size - worth * weight) * counts[value, weight]
                for value, weight in weighing
            )
            return free - -(worth * room + sum(gains)) // size
    return free + sum(value * counts[value, weight] for value, weight in weighing)


class _DeviceIdle:
    """One device of a window and its micro-batches, each there `repeats` times."""

    def __init__(self, window: Window, device: int, repeats: int) -> None:
        self.window = window
        self.repeats = repeats
        self.problem = problem = window.problem
        self.device = problem.devices[device]
        self.limit = self.device.activation_memory_bytes or 0
        self.epilogue_ns = self.device.epilogue_ns if device in window.counted else 0
        self.counts = device in window.counted
        self.numbers = window.stages_of_device[device]
        self.stages = [problem.stages[s] for s in self.numbers]
        self.micro_batches = range(problem.micro_batches)
        self.is_ranked = window.fixed_order or problem.alike
        self.last = self.micro_batches[-1:] if self.is_ranked else self.micro_batches
        self.head_ns = window.head_ns(self.numbers[0])
        once_ns = sum(s.compute_ns(m) for s in self.stages for m in self.micro_batches)
        self.work_ns = repeats * once_ns
        self.first_backward_ns = min(min(window.backward_release_ns[s]) for s in self.numbers)

    def bounds_ns(self) -> dict[str, int]:
        all_held = self.repeats * sum(sum(stage.activation_bytes) for stage in self.stages)
        room = self.limit + self._away_bytes()
        forwards = [
            (stage.forward_ns[m], stage.activation_bytes[m])
            for stage in self.stages
            for m in self.micro_batches
        ]
        before = most_value(forwards, room, self.repeats)
        after_fill = self.first_backward_ns + self.work_ns - before
        rest = min(map(self._way_back_ns, self.last)) - self._pending_ns()
        rest -= max(map(self._own_ns, self.last))
        drain = self.head_ns + self.work_ns + rest
        both = after_fill + rest if all_held > room else 0
        delivery_ns = self.window.delivery_ns[self.numbers[0]]
        tail = self.head_ns + self.work_ns - self._late_ns()
        tail += min(delivery_ns[m] for m in self.last)
        fill = after_fill + self.epilogue_ns if self.counts else 0
        return {FILL: fill, DRAIN: drain, BOTH: both, TAIL: tail}

    def _memory(self, stage: Stage) -> StageMemory:
        return StageMemory(stage, self.problem.micro_batches)

    def _repeated_memory(self, stage: Stage) -> StageMemory:
        if self.repeats == 1:
            return self._memory(stage)
        rows: dict[str, Any] = {f.name: getattr(stage, f.name) for f in fields(stage)}
        rows = {name: row * self.repeats for name, row in rows.items() if isinstance(row, tuple)}
        return StageMemory(replace(stage, **rows), self.problem.micro_batches * self.repeats)

    def _away_bytes(self) -> int:
        """The most that can have been offloaded when the device's first B can start."""
        offers = []
        begin: int | None = None
        for stage in self.stages:
            for m, size in enumerate(stage.offload_bytes):
                if size:
                    offers.append((size, stage.offload_ns[m]))
                    ready = self.head_ns + stage.forward_ns[m]
                    begin = ready if begin is None else min(begin, ready)
        if begin is None:
            return 0
        return most_value(offers, self.first_backward_ns - begin, self.repeats)

    def _own_ns(self, m: int) -> int:
        """The last F and its micro-batch's B and W on this device."""
        backward = sum(s.backward_input_ns[m] + s.backward_weight_ns[m] for s in self.stages)
        return self.stages[-1].forward_ns[m] + backward

    def _way_back_ns(self, m: int) -> int:
        """From the start of the last F, of micro-batch m, to the end of the window."""
        s = self.numbers[-1]
        return self.window.round_trip_ns(s, m) + self.window.delivery_ns[s][m]

    def _pending_ns(self) -> int:
        """The most time of B and W, of other micro-batches, after the start of the last F."""
        if len(self.stages) == 1 and self.is_ranked:
            memory = self._repeated_memory(self.stages[0])
            return memory.most_pending_ns(self.limit, memory.micro_batches - 1)
        held = self._memory(self.stages[-1]).forward_held
        room = self.limit - min(held[m] for m in self.last)
        items = []
        for stage in self.stages:
            for m in self.micro_batches:
                # A pending B holds what is resident and brings its W along; a pending W holds
                # its late bytes. B counts as what it holds more.
                resident = stage.activation_bytes[m] - stage.offload_bytes[m]
                least = min(resident, stage.late_bytes(m))
                items.append((stage.backward_weight_ns[m], least))
                items.append((stage.backward_input_ns[m], resident - least))
        return most_value(items, room, self.repeats)

    def _late_ns(self) -> int:
        """The most time of W after the end of the last B, which is of the first stage here."""
        stage = self.stages[0]
        held = self._memory(stage).backward_held
        room = self.limit - min(held[m] for m in self.last)
        items = [
            (other.backward_weight_ns[m], other.late_bytes(m))
            for other in self.stages
            for m in self.micro_batches
            if other.has_weight_op(m)
        ]
        own = max(stage.backward_weight_ns[m] for m in self.last)
        return own + most_value(items, room, self.repeats)
