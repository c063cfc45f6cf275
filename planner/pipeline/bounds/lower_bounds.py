"""Lower bounds on what any schedule of a problem can reach, without solving anything.

All hold for every placement, for numbers that differ between micro-batches, for both micro-batch
orders and with offloading. They count from the first start, which is the F of stage 0 of some
micro-batch: of micro-batch 0 under fixed order, of any one under free order. `head` and `tail`
below are therefore those of the first and the last micro-batch under fixed order, and the
smallest over all micro-batches under free order.

Rounding. Fix what a valid schedule decides: the order of operations on each device and channel,
the order of allocations on each device and host, and which frees come before each allocation.
Every schedule that keeps to it is valid, and the earliest of them starts each operation at a
longest path of durations and latencies from the first start, hence at a multiple of their
greatest common divisor, and ends no later. The least makespan is therefore such a multiple, and a
makespan bound is rounded up to one. The steady span has no such argument: delaying a device's
first operation may shorten its own span and lengthen another's, and the best compromise may lie
halfway. Its bounds are rounded up to whole nanoseconds only.

The idle bounds (`bounds.idle`) and recycling (`bounds.recycling`) add what memory limits cost; on a
device with several stages arrival counts from its earliest one, which is the bubble of interleaved
and V-shaped schedules.

Sources: arrival, work and drain are the per-stage bounds behind "Zero Bubble Pipeline Parallelism"
(Qi et al., 2023) and the single-machine relaxation of shop scheduling (Carlier, 1982);
memory-time is the energy argument of cumulative scheduling (Erschler and Lopez, 1990).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, chain
from math import gcd

from planner.errors import Interrupted
from planner.pipeline.bounds.idle import idle_bounds_ns
from planner.pipeline.bounds.memory_time import memory_time_bound_ns
from planner.pipeline.bounds.ranked import with_micro_batches_ranked
from planner.pipeline.bounds.recycling import recycling_bound_ns
from planner.pipeline.bounds.window import Window
from planner.pipeline.names import BoundName
from planner.pipeline.problem import Objective, PipelineProblem
from planner.progress import StopCheck, never

MOST_PLACES = 100_000
"""Stages times micro-batches, over all windows of a steady span that are looked into."""


@dataclass(frozen=True, order=True)
class Bound:
    """A proven lower bound on the problem's objective, and the argument it comes from."""

    name: str
    value_ns: int


def lower_bounds(problem: PipelineProblem, should_stop: StopCheck = never) -> list[Bound]:
    """The bounds of the problem's own objective, best first, on its time grid.

    Told to stop, those that take long are left out; there is always one.
    """
    values: dict[str, int] = {BoundName.ARRIVAL_AND_WORK: _longest_work_ns(problem)}
    windows = _windows(problem)
    for window in windows:
        if should_stop():
            break
        for name, value in _window_bounds(window).items():
            values[name] = max(values.get(name, 0), value)
    ranked = with_micro_batches_ranked(problem)
    if ranked is not problem:
        windows = _windows(ranked)
    with suppress(Interrupted):
        values[BoundName.RECYCLING] = max(recycling_bound_ns(w, should_stop) for w in windows)
    grid = time_grid_ns(problem)
    bounds = [Bound(name, -(-value // grid) * grid) for name, value in values.items()]
    return sorted(bounds, key=lambda bound: (-bound.value_ns, bound.name))


def time_grid_ns(problem: PipelineProblem) -> int:
    """A number of nanoseconds of which the optimal objective is a multiple, at least 1.

    The greatest common divisor of all durations, latencies and epilogues for a makespan; 1 for
    a steady span, whose optimum may lie between (see the module's docstring).
    """
    if problem.objective is not Objective.MAKESPAN:
        return 1
    times = [device.epilogue_ns for device in problem.devices]
    for stage in problem.stages:
        times += [
            *stage.forward_ns,
            *stage.backward_input_ns,
            *stage.backward_weight_ns,
        ]
        for m, size in enumerate(stage.offload_bytes):
            if size:
                times += [stage.offload_ns[m], stage.reload_ns[m]]
    times += chain.from_iterable((*t.forward_ns, *t.backward_ns) for t in problem.transfers)
    return gcd(*times) or 1


def _windows(problem: PipelineProblem) -> list[Window]:
    """The windows whose longest is the problem's objective, as many as can be looked into.

    Each window of a steady span takes time for all its operations; where they are too many, the
    devices that promise most are taken. Any of them gives a valid bound.
    """
    busy = [d for d, stages in enumerate(problem.stages_of_device) if stages]
    if problem.objective is Objective.MAKESPAN:
        return [Window(problem, 0, frozenset(busy))]
    windows: list[Window] = []
    left = MOST_PLACES
    for d in sorted(busy, key=lambda d: (-_promise(problem, d), d)):
        base = problem.stages_of_device[d][0]
        left -= (len(problem.stages) - base) * problem.micro_batches
        if windows and left < 0:
            break
        windows.append(Window(problem, base, frozenset({d})))
    return windows


def _promise(problem: PipelineProblem, device: int) -> float:
    """A rough figure for the span that a device needs, by its first micro-batch."""
    own = problem.stages_of_device[device]
    work = sum(problem.stages[s].compute_ns(0) for s in own) * problem.micro_batches
    trip = sum(stage.compute_ns(0) for stage in problem.stages[own[0] :])
    limit = problem.devices[device].activation_memory_bytes
    held = sum(problem.stages[s].activation_bytes[0] for s in own)
    rounds = 1.0 if limit is None else max(1.0, problem.micro_batches * held / max(limit, 1))
    return max(work, trip * rounds) + problem.devices[device].epilogue_ns


def _window_bounds(window: Window) -> dict[str, int]:
    work = {d: _work_ns(window, d) for d in window.stages_of_device}
    return {
        BoundName.ARRIVAL_AND_WORK: max(
            _arrival_and_work_ns(window, d, work[d]) for d in window.counted
        ),
        BoundName.WORK_AND_DRAIN: max(
            _work_and_drain_ns(window, d, own) for d, own in work.items()
        ),
        BoundName.CRITICAL_PATH: _critical_path_ns(window),
        BoundName.MEMORY_TIME: memory_time_bound_ns(window),
        **idle_bounds_ns(window),
    }


def _longest_work_ns(problem: PipelineProblem) -> int:
    """All work of one device and its epilogue, whether or not its window was looked into."""
    return max(
        sum(sum(map(problem.stages[s].compute_ns, range(problem.micro_batches))) for s in stages)
        + problem.devices[d].epilogue_ns
        for d, stages in enumerate(problem.stages_of_device)
        if stages
    )


@dataclass(frozen=True)
class _Work:
    """Work of one device within the window before micro-batch m: prefix sums, m from 0 to M."""

    both_ns: list[int]
    all_ns: list[int]


def _work_ns(window: Window, device: int) -> _Work:
    stages = [window.problem.stages[s] for s in window.stages_of_device[device]]
    count = range(window.problem.micro_batches)
    both = [sum(s.forward_ns[m] + s.backward_input_ns[m] for s in stages) for m in count]
    every = [sum(s.compute_ns(m) for s in stages) for m in count]
    return _Work(list(accumulate(both, initial=0)), list(accumulate(every, initial=0)))


def _arrival_and_work_ns(window: Window, device: int, work: _Work) -> int:
    """Earliest arrival of a micro-batch, all work from it on, and the device's epilogue."""
    first = window.stages_of_device[device][0]
    total, epilogue = work.all_ns[-1], window.problem.devices[device].epilogue_ns
    if not window.fixed_order:
        return window.head_ns(first) + total + epilogue
    starts = zip(window.forward_release_ns[first], work.all_ns, strict=False)
    return max(start + total - done for start, done in starts) + epilogue


def _work_and_drain_ns(window: Window, device: int, work: _Work) -> int:
    """Arrival, F and B of the device, and the way back from its first stage to the base stage.

    Under fixed order for the best run of consecutive micro-batches a..b: nothing of them starts
    before F(a) arrives, and B(b) on the first stage ends last of them.
    """
    first = window.stages_of_device[device][0]
    if not window.fixed_order:
        return window.head_ns(first) + work.both_ns[-1] + window.tail_ns(first)
    best, opened = 0, 0
    for m, start in enumerate(window.forward_release_ns[first]):
        opened = start - work.both_ns[m] if m == 0 else max(opened, start - work.both_ns[m])
        best = max(best, opened + work.both_ns[m + 1] + window.delivery_ns[first][m])
    return best


def _critical_path_ns(window: Window) -> int:
    """The longest path of precedences and of work on one device through any B."""
    return max(
        start + backward + rest
        for s in window.stages
        for start, backward, rest in zip(
            window.backward_release_ns[s],
            window.problem.stages[s].backward_input_ns,
            window.delivery_ns[s],
            strict=True,
        )
    )
