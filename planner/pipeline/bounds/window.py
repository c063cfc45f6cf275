"""How early operations can start and how much must follow them, within a window of the iteration.

A window opens with the first F of its base stage and closes with the last end, epilogue
included, on any of its counted devices. The makespan is the window of base stage 0 that counts
all devices; the span of one device is the window of its first stage that counts this device
alone, since whatever the stages from there on do lies between that device's first start and last
end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from planner.pipeline.problem import MicroBatchOrder, PipelineProblem

Grid = dict[int, list[int]]
"""Nanoseconds per stage and micro-batch."""


@dataclass(frozen=True)
class Window:
    """The part of an iteration from the first F of `base` to the last end on `counted` devices.

    Times rest on three facts: the path of a micro-batch through the stages; under fixed order,
    that a stage's F (and B) follow one another; and that one device does one thing at a time, so
    that what must come before or after an operation on its own device adds up.
    """

    problem: PipelineProblem
    base: int
    counted: frozenset[int]

    @property
    def fixed_order(self) -> bool:
        return self.problem.micro_batch_order is MicroBatchOrder.FIXED

    @cached_property
    def stages(self) -> range:
        return range(self.base, len(self.problem.stages))

    @cached_property
    def stages_of_device(self) -> dict[int, list[int]]:
        """Stages within the window per device, ascending; devices without any are left out."""
        own: dict[int, list[int]] = {}
        for s in self.stages:
            own.setdefault(self.problem.stages[s].device, []).append(s)
        return own

    def _up_to(self, values: tuple[int, ...]) -> list[int]:
        """What must have run when a micro-batch's turn has ended: under fixed order, a sum."""
        return list(accumulate(values)) if self.fixed_order else list(values)

    def _from(self, values: tuple[int, ...]) -> list[int]:
        """What has not run when a micro-batch's turn comes: under fixed order, a sum."""
        return list(accumulate(values[::-1]))[::-1] if self.fixed_order else list(values)

    @cached_property
    def forward_release_ns(self) -> Grid:
        """Earliest start of F, per stage and micro-batch."""
        problem = self.problem
        release: Grid = {}
        before: dict[int, list[int]] = {}
        head: dict[int, int] = {}
        for s in self.stages:
            stage = problem.stages[s]
            arrival = [0] * problem.micro_batches
            if s > self.base:
                earlier, hop = problem.stages[s - 1], problem.transfers[s - 1]
                arrival = [
                    start + earlier.forward_ns[m] + hop.forward_ns[m]
                    for m, start in enumerate(release[s - 1])
                ]
            own = self._up_to(stage.forward_ns)
            done = before.get(stage.device, [0] * problem.micro_batches)
            begin = head.setdefault(stage.device, arrival[0] if self.fixed_order else min(arrival))
            starts: list[int] = []
            for m, reached in enumerate(arrival):
                start = max(reached, begin + done[m] + own[m] - stage.forward_ns[m])
                if self.fixed_order and m:
                    start = max(start, starts[-1] + stage.forward_ns[m - 1])
                starts.append(start)
            release[s] = starts
            before[stage.device] = [a + b for a, b in zip(done, own, strict=True)]
        return release

    @cached_property
    def backward_release_ns(self) -> Grid:
        """Earliest start of B, per stage and micro-batch."""
        problem = self.problem
        release: Grid = {}
        before: dict[int, list[int]] = {}
        for device, own_stages in self.stages_of_device.items():
            sums = [self._up_to(problem.stages[s].forward_ns) for s in own_stages]
            head = self.head_ns(own_stages[0])
            before[device] = [head + sum(column) for column in zip(*sums, strict=True)]
        for s in reversed(self.stages):
            stage = problem.stages[s]
            if s + 1 < len(problem.stages):
                later, hop = problem.stages[s + 1], problem.transfers[s]
                arrival = [
                    start + later.backward_input_ns[m] + hop.backward_ns[m]
                    for m, start in enumerate(release[s + 1])
                ]
            else:
                arrival = [
                    start + stage.forward_ns[m]
                    for m, start in enumerate(self.forward_release_ns[s])
                ]
            own = self._up_to(stage.backward_input_ns)
            done = before[stage.device]
            starts: list[int] = []
            for m, reached in enumerate(arrival):
                start = max(reached, done[m] + own[m] - stage.backward_input_ns[m])
                if self.fixed_order and m:
                    start = max(start, starts[-1] + stage.backward_input_ns[m - 1])
                starts.append(start)
            release[s] = starts
            before[stage.device] = [a + b for a, b in zip(done, own, strict=True)]
        return release

    @cached_property
    def delivery_ns(self) -> Grid:
        """Least time from the end of B to the end of the window, per stage and micro-batch."""
        problem = self.problem
        delivery: Grid = {}
        later_work: dict[int, list[int]] = {}
        for s in self.stages:
            stage = problem.stages[s]
            backward = self._from(stage.backward_input_ns)
            weight = self._from(stage.backward_weight_ns)
            earlier = later_work.get(stage.device, [0] * problem.micro_batches)
            own = [sum(column) for column in zip(earlier, backward, weight, strict=True)]
            later_work[stage.device] = own
            counted = stage.device in self.counted
            epilogue = problem.devices[stage.device].epilogue_ns
            rests = [0] * problem.micro_batches
            for m in reversed(range(problem.micro_batches)):
                rest = own[m] - stage.backward_input_ns[m] + epilogue if counted else 0
                if s > self.base:
                    back = problem.transfers[s - 1].backward_ns[m]
                    back += problem.stages[s - 1].backward_input_ns[m]
                    rest = max(rest, back + delivery[s - 1][m])
                if self.fixed_order and m + 1 < problem.micro_batches:
                    rest = max(rest, stage.backward_input_ns[m + 1] + rests[m + 1])
                rests[m] = rest
            delivery[s] = rests
        return delivery

    def head_ns(self, stage: int) -> int:
        """Earliest start of anything on this stage after the window opens."""
        starts = self.forward_release_ns[stage]
        return starts[0] if self.fixed_order else min(starts)

    def tail_ns(self, stage: int) -> int:
        """Least time from the end of the stage's last B to the end of the window."""
        rests = self.delivery_ns[stage]
        return rests[-1] if self.fixed_order else min(rests)

    def round_trip_ns(self, stage: int, micro_batch: int) -> int:
        """Least time from the start of F to the end of B of one micro-batch on a stage."""
        return self._round_trips[stage][micro_batch]

    @cached_property
    def _round_trips(self) -> Grid:
        problem = self.problem
        trips: Grid = {}
        for s in reversed(self.stages):
            stage = problem.stages[s]
            trip = [f + b for f, b in zip(stage.forward_ns, stage.backward_input_ns, strict=True)]
            if s + 1 < len(problem.stages):
                hop = problem.transfers[s]
                beyond = zip(trips[s + 1], hop.forward_ns, hop.backward_ns, strict=True)
                trip = [own + sum(rest) for own, rest in zip(trip, beyond, strict=True)]
            trips[s] = trip
        return trips
