"""Bounds of a makespan whose micro-batches are all alike, whose cost does not grow with their
number.

Under fixed order the earliest start of an operation, as `bounds.window` has it, is the highest of
functions that are linear in the micro-batch, and so is what must follow it. A sum of the two is
convex, and largest for the first micro-batch or the last. With both ends in hand, what
`bounds.lower_bounds` says of arrival, work, drain and the critical path is had exactly; so is idle
time that memory forces (`bounds.idle`).

Of `bounds.recycling` only the chain of round trips is taken: where room is left for K activations
of a stage beside the one that its F takes, F(k) waits for B(k - K - 1), and, where W keep late
bytes, for such a W likewise, so that M micro-batches take (M - 1) // (K + 1) round trips and one
more. All of it holds for every schedule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

from planner.pipeline.bounds.idle import idle_bounds_ns
from planner.pipeline.bounds.lower_bounds import time_grid_ns
from planner.pipeline.bounds.window import Window
from planner.pipeline.problem import Objective, PipelineProblem, Stage, Transfer

_Rows = TypeVar("_Rows", Stage, Transfer)
_Ends = tuple[int, int]
"""Nanoseconds of the first and of the last micro-batch."""


def alike_bound_ns(problem: PipelineProblem, micro_batches: int) -> int:
    """The best bound on the makespan of `micro_batches` micro-batches, in ns, on its time grid,
    each micro-batch like the first of `problem` and under fixed order."""
    one = problem if problem.micro_batches == 1 else _first_alone(problem)
    window = Window(one, 0, frozenset(stage.device for stage in one.stages))
    first_and_last = _FirstAndLast(one, micro_batches)
    best = max(
        *first_and_last.bounds_ns(),
        *_round_trips_ns(window, micro_batches),
        *idle_bounds_ns(window, micro_batches).values(),
    )
    grid = time_grid_ns(one)
    return -(-best // grid) * grid


def _first_alone(problem: PipelineProblem) -> PipelineProblem:
    return replace(
        problem,
        micro_batches=1,
        stages=tuple(_first_of(stage) for stage in problem.stages),
        transfers=tuple(_first_of(transfer) for transfer in problem.transfers),
        objective=Objective.MAKESPAN,
    )


def _first_of(rows: _Rows) -> _Rows:
    first: dict[str, Any] = {f.name: getattr(rows, f.name) for f in fields(rows)}
    first = {name: row[:1] for name, row in first.items() if isinstance(row, tuple)}
    return replace(rows, **first)


@dataclass(frozen=True)
class _FirstAndLast:
    """Earliest starts, and least times that follow, of the first and the last of `count`
    micro-batches like that of `problem`; each is worked out as in `bounds.window`."""

    problem: PipelineProblem
    count: int

    def bounds_ns(self) -> Iterator[int]:
        """Of each device: arrival and work, work and drain; of each stage: the critical path."""
        problem, rest = self.problem, self.count - 1
        for device, numbers in zip(problem.devices, problem.stages_of_device, strict=True):
            if not numbers:
                continue
            stages = [problem.stages[s] for s in numbers]
            every = sum(stage.compute_ns(0) for stage in stages)
            both = sum(stage.forward_ns[0] + stage.backward_input_ns[0] for stage in stages)
            early, late = self.forwards_ns[numbers[0]]
            after_early, after_late = self.deliveries_ns[numbers[0]]
            yield max(early + rest * every, late) + every + device.epilogue_ns
            yield max(
                early + both + max(after_early, rest * both + after_late), late + both + after_late
            )
        for number, stage in enumerate(problem.stages):
            own = stage.backward_input_ns[0]
            yield max(
                start + own + after
                for start, after in zip(
                    self.backwards_ns[number], self.deliveries_ns[number], strict=True
                )
            )

    @cached_property
    def forwards_ns(self) -> list[_Ends]:
        """Earliest starts of F by stage."""
        problem, count = self.problem, self.count
        starts: list[_Ends] = []
        begins: dict[int, int] = {}
        done: dict[int, int] = defaultdict(int)
        early = late = 0
        for number, stage in enumerate(problem.stages):
            device, own = stage.device, stage.forward_ns[0]
            begin = begins.setdefault(device, early)
            early = max(early, begin + done[device])
            late = max(
                late,
                begin + done[device] * count + own * (count - 1),
                early + own * (count - 1),
            )
            done[device] += own
            starts.append((early, late))
            if number < len(problem.transfers):
                hop = own + problem.transfers[number].forward_ns[0]
                early, late = early + hop, late + hop
        return starts

    @cached_property
    def backwards_ns(self) -> list[_Ends]:
        """Earliest starts of B by stage."""
        problem, count = self.problem, self.count
        all_forwards = [
            sum(problem.stages[s].forward_ns[0] for s in own) for own in problem.stages_of_device
        ]
        heads = [self.forwards_ns[own[0]][0] if own else 0 for own in problem.stages_of_device]
        done = dict(enumerate(all_forwards))
        starts: list[_Ends] = []
        last = problem.stages[-1].forward_ns[0]
        early, late = (start + last for start in self.forwards_ns[-1])
        for number in reversed(range(len(problem.stages))):
            stage = problem.stages[number]
            device, own = stage.device, stage.backward_input_ns[0]
            early = max(early, heads[device] + done[device])
            late = max(
                late,
                heads[device] + done[device] * count + own * (count - 1),
                early + own * (count - 1),
            )
            done[device] += own
            starts.append((early, late))
            if number:
                hop = own + problem.transfers[number - 1].backward_ns[0]
                early, late = early + hop, late + hop
        return starts[::-1]

    @cached_property
    def deliveries_ns(self) -> list[_Ends]:
        """Least times from the end of B to the end of the step by stage."""
        problem, count = self.problem, self.count
        done: dict[int, int] = defaultdict(int)
        rests: list[_Ends] = []
        early = late = 0
        for number, stage in enumerate(problem.stages):
            device, own = stage.device, stage.backward_input_ns[0]
            done[device] += own + stage.backward_weight_ns[0]
            epilogue = problem.devices[device].epilogue_ns
            if number:
                hop = problem.transfers[number - 1].backward_ns[0]
                hop += problem.stages[number - 1].backward_input_ns[0]
                early, late = early + hop, late + hop
            late = max(late, done[device] - own + epilogue)
            early = max(early, done[device] * count - own + epilogue, late + own * (count - 1))
            rests.append((early, late))
        return rests


def _round_trips_ns(window: Window, micro_batches: int) -> Iterator[int]:
    """Of each stage with a memory limit: the round trips from it that must follow one another,
    with what comes before and after."""
    problem = window.problem
    for device, numbers in window.stages_of_device.items():
        limit = problem.devices[device].activation_memory_bytes
        for number in numbers if limit is not None else ():
            assert limit is not None
            stage = problem.stages[number]
            if not stage.forward_ns[0] + stage.backward_input_ns[0]:
                continue
            resident = stage.activation_bytes[0] - stage.offload_bytes[0]
            room = limit - stage.activation_bytes[0]
            limit -= resident
            trip = window.round_trip_ns(number, 0)
            weight = stage.backward_weight_ns[0]
            waits = ((resident, trip), (min(resident, stage.late_bytes(0)), trip + weight))
            longest = max(
                (micro_batches - 1) // (room // held + 1) * length if held and room >= 0 else 0
                for held, length in waits
            )
            after = window.delivery_ns[number][0]
            yield window.head_ns(number) + longest + trip + after
