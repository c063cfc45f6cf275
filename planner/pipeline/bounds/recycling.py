"""The recycling bound: an F waits until the room that it takes has been given back.

Earliest starts are propagated once through all operations, micro-batch by micro-batch. Beside
data, order and the device's own work (`bounds.window`), an operation starts no sooner than

- the B and the W without whose bytes it doesn't fit beside what must be resident by then: in
  equal stages with room for K activations F(k) follows W(k - K), so that m micro-batches take
  about m / K round trips one after the other;
- all the work that lies before it. Of the operations of ranks before k, all but those that memory
  lets wait have run when F(k) starts. If the operations with earliest start >= h take time P and
  those that may wait take Q < P, then some of them have run, none before h: F(k) starts no
  sooner than h + P - Q. Before B(k) likewise, where only W may wait.

The bound is the latest end plus what must follow it. It holds for unequal stages and micro-batches
and, ranks in place of micro-batches, under free order if micro-batches are alike. What can be
offloaded may be away whenever that helps. Where a device has several stages of the window, only
the first of the two rules is used.

Source: the chain of round trips is the steady state of "Zero Bubble Pipeline Parallelism" (Qi et
al., 2023) below the memory of 1F1B; the rule on work is the head adjustment of single-machine
scheduling (Carlier and Pinson, 1989).
"""

from __future__ import annotations

from bisect import bisect_right

from planner.pipeline.bounds.stage_memory import StageMemory
from planner.pipeline.bounds.window import Window
from planner.progress import StopCheck, never, watched

MICRO_BATCHES_BETWEEN_CHECKS = 16
MOST_PERIODS = 64
"""Busy periods, from the last on, in which the work before an operation is looked for."""


def recycling_bound_ns(window: Window, should_stop: StopCheck = never) -> int:
    """The bound on the window's length; 0 where no device of it has a memory limit.

    The window's problem has fixed order or micro-batches that are alike. Raises `Interrupted` if
    told to stop.
    """
    problem = window.problem
    devices = [problem.devices[d] for d in window.stages_of_device]
    if all(device.activation_memory_bytes is None for device in devices):
        return 0
    passes = {s: _StagePass(window, s) for s in window.stages}
    _propagate(window, passes, should_stop)
    return max(own.bound_ns() for own in passes.values())


def _propagate(window: Window, passes: dict[int, _StagePass], should_stop: StopCheck) -> None:
    """Place all operations, micro-batch by micro-batch: what comes before comes first."""
    problem = window.problem
    downwards = list(passes.values())
    upwards = downwards[::-1]
    transfers = problem.transfers[window.base :]
    ahead = [t.forward_ns for t in transfers]
    back = [t.backward_ns for t in reversed(transfers)]
    chunks = {
        s: [passes[other] for other in own if other <= s]
        for own in window.stages_of_device.values()
        if len(own) > 1
        for s in own
    }
    for k in watched(range(problem.micro_batches), should_stop, MICRO_BATCHES_BETWEEN_CHECKS):
        arrival = 0
        for position, own in enumerate(downwards):
            if position:
                arrival += ahead[position - 1][k]
            if own.number in chunks:
                arrival = max(arrival, _room_of_chunks_ns(chunks[own.number], k))
            arrival = own.place_forward(k, arrival)
        for position, own in enumerate(upwards):
            if position:
                arrival += back[position - 1][k]
            arrival = own.place_backward(k, arrival)


def _room_of_chunks_ns(chunks: list[_StagePass], k: int) -> int:
    """When what F(k) takes the place of has ended, on a device with several stages.

    `chunks` are the device's stages up to that of F(k). The earlier ones have run their F(k) too,
    and if one has a B pending, so have those before it. Of an F and B that take no time nothing is
    claimed: all may happen at one instant.
    """
    last = chunks[-1]
    if last.limit is None or not last.stage.forward_ns[k] + last.stage.backward_input_ns[k]:
        return 0
    room = last.limit - last.memory.forward_held[k]
    room -= sum(chunk.memory.resident[k] for chunk in chunks[:-1])
    return max(chunk.freed_ns(k, room) for chunk in chunks)


class _BusyTime:
    """Work that can't start before given times, as the busy periods of who starts it earliest."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._work: list[int] = []
        self._total = 0

    def add(self, start: int, work: int) -> None:
        """One more operation."""
        if not work:
            return
        self._total += work
        starts, works = self._starts, self._work
        at = bisect_right(starts, start)
        if at and starts[at - 1] + works[at - 1] >= start:
            at -= 1
            works[at] += work
        else:
            starts.insert(at, start)
            works.insert(at, work)
        end = starts[at] + works[at]
        while at + 1 < len(starts) and end >= starts[at + 1]:
            del starts[at + 1]
            end += works.pop(at + 1)
            works[at] = end - starts[at]

    def end_without(self, waiting: int, known: int = 0) -> int:
        """Earliest end of the operations if any that take `waiting` in all are left out, or
        `known` where that is later. Beyond the last `MOST_PERIODS` it isn't looked for."""
        work = 0
        if self._total <= waiting:
            return known
        last = len(self._starts) - 1
        for at in range(last, max(-1, last - MOST_PERIODS), -1):
            work += self._work[at]
            # From one busy period to the one before, this never rises.
            end = self._starts[at] + work - waiting
            if end <= known:
                return known
            if work > waiting:
                return end
        return known


class _StagePass:
    """Earliest starts of one stage's F and B, and ends of its W, placed rank by rank."""

    def __init__(self, window: Window, number: int) -> None:
        problem = window.problem
        self.number = number
        self.stage = stage = problem.stages[number]
        self.limit = limit = problem.devices[stage.device].activation_memory_bytes
        self.memory = memory = StageMemory(stage, problem.micro_batches)
        self.epilogue_ns = problem.devices[stage.device].epilogue_ns
        self.is_counted = stage.device in window.counted
        self.forward_release_ns = window.forward_release_ns[number]
        self.backward_release_ns = window.backward_release_ns[number]
        self.delivery_ns = window.delivery_ns[number]
        self.weights_in_order = 0 not in stage.backward_weight_ns
        self.backward_ends: list[int] = []
        self.weight_ends: list[int] = []
        self.forward_end = self.backward_end = self.weight_end = 0
        self.busy: _BusyTime | None = None
        if limit is not None and len(window.stages_of_device[stage.device]) == 1:
            self.busy = _BusyTime()
            self.pending_ns = memory.pending_ns(limit)
            self.weights_before_backward = memory.weights_before_backward(limit)

    def place_forward(self, k: int, arrival: int) -> int:
        """Place F(k), which arrives then; its earliest end."""
        start = max(arrival, self.forward_release_ns[k], self.forward_end)
        length = self.stage.forward_ns[k]
        if self.busy is not None:
            assert self.limit is not None
            freed = self.freed_ns(k, self.limit - self.memory.forward_held[k])
            start = self.busy.end_without(self.pending_ns[k], max(start, freed))
            self.busy.add(start, length)
        self.forward_end = start + length
        return self.forward_end

    def freed_ns(self, k: int, room: int) -> int:
        """When the B and W of this stage that must precede an F of rank k have ended."""
        freed = 0
        backwards = self.memory.backwards_before_forward(k, room)
        if backwards:
            freed = self.backward_ends[backwards - 1]
        weights = self.memory.weights_before_forward(k, room)
        if weights:
            freed = max(freed, self.weight_ends[weights - 1])
        return freed

    def place_backward(self, k: int, arrival: int) -> int:
        """Place B(k), whose gradient arrives then, and W(k); the earliest end of B(k)."""
        start = max(arrival, self.forward_end, self.backward_release_ns[k], self.backward_end)
        length, weight = self.stage.backward_input_ns[k], self.stage.backward_weight_ns[k]
        if self.busy is not None:
            done = self.weights_before_backward[k]
            if done:
                start = max(start, self.weight_ends[done - 1])
            waiting = self.memory.weight_sum[k] - self.memory.weight_sum[done]
            start = self.busy.end_without(waiting, start)
            self.busy.add(start, length)
        self.backward_end = start + length
        begin = self.backward_end
        if self.weights_in_order:
            begin = max(begin, self.weight_end)
        if self.busy is not None:
            self.busy.add(begin, weight)
        self.weight_end = begin + weight
        self.backward_ends.append(self.backward_end)
        self.weight_ends.append(self.weight_end)
        return self.backward_end

    def bound_ns(self) -> int:
        """The longest path through any B, and the end of the device if it counts."""
        paths = zip(self.backward_ends, self.delivery_ns, strict=True)
        longest = max(end + rest for end, rest in paths)
        if not self.is_counted:
            return longest
        last = max(self.weight_ends)
        if self.busy is not None:
            last = self.busy.end_without(0, last)
        return max(longest, last + self.epilogue_ns)
