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

Sources: arrival, work and drain are the per-stage bounds behind "Zero Bubble Pipeline Parallelism"
(Qi et al., 2023) and the single-machine relaxation of shop scheduling (Carlier, 1982);
memory-time is the energy argument of cumulative scheduling (Erschler and Lopez, 1990).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, chain
from math import gcd

from planner.pipeline.bounds.memory_time import memory_time_bound_ns
from planner.pipeline.bounds.window import Window
from planner.pipeline.problem import Objective, PipelineProblem


@dataclass(frozen=True, order=True)
class Bound:
    """A proven lower bound on the problem's objective, and the argument it comes from."""

    name: str
    value_ns: int


def lower_bounds(problem: PipelineProblem) -> list[Bound]:
    """The bounds of the problem's own objective, best first, on its time grid."""
    values: dict[str, int] = {}
    for window in _windows(problem):
        for name, value in _window_bounds(window).items():
            values[name] = max(values.get(name, 0), value)
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
    """The windows whose longest is the problem's objective."""
    busy = [d for d, stages in enumerate(problem.stages_of_device) if stages]
    if problem.objective is Objective.MAKESPAN:
        return [Window(problem, 0, frozenset(busy))]
    return [Window(problem, problem.stages_of_device[d][0], frozenset({d})) for d in busy]


def _window_bounds(window: Window) -> dict[str, int]:
    work = {d: _work_ns(window, d) for d in window.stages_of_device}
    return {
        "arrival and work": max(_arrival_and_work_ns(window, d, work[d]) for d in window.counted),
        "work and drain": max(_work_and_drain_ns(window, d, own) for d, own in work.items()),
        "critical path": _critical_path_ns(window),
        "memory-time": memory_time_bound_ns(window),
    }


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
