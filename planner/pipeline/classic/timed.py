"""A timed classic schedule as arrays: its figures, and its operations when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.pipeline.classic.arrays import (
    Numbers,
    OrderArrays,
    ProblemArrays,
    order_arrays,
    problem_arrays,
)
from planner.pipeline.classic.longest_path import earliest_starts
from planner.pipeline.orders import Orders
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.schedule import OpKind, Schedule, TimedOp
from planner.pipeline.timing import schedule_from_ops

KINDS: tuple[OpKind, ...] = ("F", "B", "W", "O", "R")


@dataclass(frozen=True)
class TimedClassic:
    """The start of every operation, stacked by kind (F, B, W, O, R); -1 where there is none.

    The figures are those of the `Schedule` that `schedule` makes of it.
    """

    problem: PipelineProblem
    arrays: ProblemArrays
    starts: Numbers

    @cached_property
    def schedule(self) -> Schedule:
        """The operations one by one."""
        durations = self._durations
        ops = []
        for k, kind in enumerate(KINDS):
            stages, micro_batches = np.nonzero(self.starts[k] >= 0)
            begins = self.starts[k, stages, micro_batches]
            ends = begins + durations[k, stages, micro_batches]
            columns = (stages.tolist(), micro_batches.tolist(), begins.tolist(), ends.tolist())
            ops += [TimedOp(kind, *each) for each in zip(*columns, strict=True)]
        return schedule_from_ops(self.problem, ops)

    @property
    def makespan_ns(self) -> int:
        """From the first start to the last end, epilogues included."""
        first, last = self._spans
        return int(last.max() - first.min())

    @property
    def steady_span_ns(self) -> int:
        """The longest time from first start to last end, epilogue included, of any device."""
        first, last = self._spans
        return int((last - first).max())

    @property
    def objective_ns(self) -> int:
        """The problem's objective."""
        makespan = self.problem.objective is Objective.MAKESPAN
        return self.makespan_ns if makespan else self.steady_span_ns

    @property
    def busy_ns(self) -> int:
        """Compute time of all devices together."""
        return int(self.arrays.durations.sum())

    @property
    def offloads(self) -> int:
        """How many activations are offloaded and reloaded."""
        return int((self.starts[3] >= 0).sum())

    @cached_property
    def peak_memory_bytes(self) -> tuple[int, ...]:
        """The most that each device holds."""
        arrays, starts = self.arrays, self.starts
        ends = starts + self._durations
        sizes = np.array([stage.offload_bytes for stage in self.problem.stages], dtype=np.int64)
        changes = [
            (starts[0], arrays.activation, starts[0]),
            (starts[1], arrays.backward_allocation, starts[1]),
            (ends[1], -arrays.backward_free, starts[1]),
            (ends[2], -arrays.late, starts[2]),
            (ends[3], -sizes, starts[3]),
            (starts[4], sizes, starts[4]),
        ]
        return self._peaks(changes, self.problem.stages_of_device)

    @cached_property
    def host_peak_memory_bytes(self) -> tuple[int, ...]:
        """The most that each host holds."""
        problem, starts = self.problem, self.starts
        ends = starts + self._durations
        sizes = np.array([stage.offload_bytes for stage in problem.stages], dtype=np.int64)
        changes = [(starts[3], sizes, starts[3]), (ends[4], -sizes, starts[4])]
        groups = tuple(
            tuple(s for s, x in enumerate(problem.stages) if problem.devices[x.device].host == h)
            for h in range(len(problem.hosts))
        )
        return self._peaks(changes, groups)

    def _peaks(
        self,
        changes: list[tuple[Numbers, Numbers, Numbers]],
        groups: tuple[tuple[int, ...], ...],
    ) -> tuple[int, ...]:
        """The largest running sum of (when, by how much, -1 if never) over stages together."""
        peaks = []
        for group in groups:
            rows = list(group)
            exists = [present[rows].ravel() >= 0 for _, _, present in changes]
            when = np.concatenate(
                [w[rows].ravel()[there] for (w, _, _), there in zip(changes, exists, strict=True)]
            )
            delta = np.concatenate(
                [x[rows].ravel()[there] for (_, x, _), there in zip(changes, exists, strict=True)]
            )
            # Frees of an instant come first, so that the running sum peaks at an instant's end.
            order = np.lexsort((delta, when))
            peaks.append(int(max(0, np.cumsum(delta[order]).max(initial=0))))
        return tuple(peaks)

    @cached_property
    def _durations(self) -> Numbers:
        return all_durations(self.problem, self.arrays)

    @cached_property
    def _spans(self) -> tuple[Numbers, Numbers]:
        """First start and last end, epilogue included, of each device that has stages."""
        ends = self.starts[:3] + self.arrays.durations
        present = self.starts[:3] >= 0
        stage_first = np.where(present, self.starts[:3], np.iinfo(np.int64).max).min(axis=(0, 2))
        stage_last = np.where(present, ends, 0).max(axis=(0, 2))
        used = [(d, list(own)) for d, own in enumerate(self.problem.stages_of_device) if own]
        first = np.array([stage_first[own].min() for _, own in used])
        last = [stage_last[own].max() + self.problem.devices[d].epilogue_ns for d, own in used]
        return first, np.array(last)


def all_durations(problem: PipelineProblem, arrays: ProblemArrays) -> Numbers:
    """Durations stacked by kind: F, B, W, O, R."""
    transfers = [[getattr(x, name) for x in problem.stages] for name in ("offload_ns", "reload_ns")]
    return np.concatenate([arrays.durations, np.array(transfers, dtype=np.int64)])


def timed(
    problem: PipelineProblem, orders: Orders | OrderArrays, arrays: ProblemArrays | None = None
) -> TimedClassic:
    """Exact times of orders without offloads, limits ignored. Raises `OrderError` on deadlock."""
    arrays = arrays or problem_arrays(problem)
    numbers = orders if isinstance(orders, OrderArrays) else order_arrays(problem, orders)
    return _without_transfers(problem, arrays, earliest_starts(arrays, numbers))


def timed_fused(problem: PipelineProblem, orders: Orders) -> TimedClassic:
    """Exact times of orders without W tokens in which W follows its B at once.

    A gradient is sent only after W, as where the whole backward is one operation.
    """
    arrays = problem_arrays(problem)
    forward, backward, weight = arrays.durations
    fused = ProblemArrays(
        **{
            **vars(arrays),
            "durations": np.stack([forward, backward + weight, np.zeros_like(weight)]),
            "has_weight": np.zeros_like(arrays.has_weight),
        }
    )
    starts = earliest_starts(fused, order_arrays(problem, orders))
    starts[2] = np.where(arrays.has_weight, starts[1] + backward, -1)
    return _without_transfers(problem, arrays, starts)


def from_schedule(problem: PipelineProblem, schedule: Schedule) -> TimedClassic:
    """The arrays of a schedule."""
    starts = np.full((len(KINDS), len(problem.stages), problem.micro_batches), -1, np.int64)
    for op, s, m, start, _ in schedule.ops:
        starts[KINDS.index(op), s, m] = start
    return TimedClassic(problem, problem_arrays(problem), starts)


def _without_transfers(
    problem: PipelineProblem, arrays: ProblemArrays, starts: Numbers
) -> TimedClassic:
    none = np.full((2, *starts.shape[1:]), -1, np.int64)
    return TimedClassic(problem, arrays, np.concatenate([starts, none]))
