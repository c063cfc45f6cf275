"""A timed classic schedule as arrays: its figures, and its operations when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from planner.pipeline.classic.longest_path import earliest_starts
from planner.pipeline.kernel.figures import device_peaks_bytes, host_peaks_bytes, shaped, spans_ns
from planner.pipeline.kernel.orders import OrderArrays, order_arrays
from planner.pipeline.kernel.tables import (
    BACKWARD,
    DURATION,
    FORWARD,
    OFFLOAD,
    RELOAD,
    WEIGHT,
    Integers,
    Tables,
    compute_durations,
    operation_numbers,
    ops_at,
    tables_of,
)
from planner.pipeline.orders import Orders
from planner.pipeline.problem import Objective, PipelineProblem
from planner.pipeline.schedule import Schedule
from planner.pipeline.timing import schedule_from_ops


@dataclass(frozen=True)
class TimedClassic:
    """The start of every operation by kind (as in `KINDS`), stage and micro-batch; -1 where there
    is none.

    The figures are those of the `Schedule` that `schedule` makes of it.
    """

    problem: PipelineProblem
    tables: Tables
    starts: Integers

    @cached_property
    def schedule(self) -> Schedule:
        """The operations one by one."""
        flat = self.starts.reshape(-1)
        there = flat >= 0
        # An O comes before its R where both take no time.
        blocks = np.arange(len(flat)).reshape(5, -1)[[FORWARD, BACKWARD, WEIGHT, OFFLOAD, RELOAD]]
        numbers = blocks[there[blocks]]
        return schedule_from_ops(self.problem, ops_at(self.tables, numbers, flat[numbers]))

    @property
    def makespan_ns(self) -> int:
        """From the first start to the last end, epilogues included."""
        return self._spans_ns[0]

    @property
    def steady_span_ns(self) -> int:
        """The longest time from first start to last end, epilogue included, of any device."""
        return self._spans_ns[1]

    @property
    def objective_ns(self) -> int:
        """The problem's objective."""
        makespan = self.problem.objective is Objective.MAKESPAN
        return self.makespan_ns if makespan else self.steady_span_ns

    @property
    def busy_ns(self) -> int:
        """Compute time of all devices together."""
        return int(compute_durations(self.tables).sum())

    @property
    def offloads(self) -> int:
        """How many activations are offloaded and reloaded."""
        return int((self.starts[OFFLOAD] >= 0).sum())

    @cached_property
    def peak_memory_bytes(self) -> tuple[int, ...]:
        """The most that each device holds."""
        return device_peaks_bytes(self.tables, self.starts)

    @cached_property
    def host_peak_memory_bytes(self) -> tuple[int, ...]:
        """The most that each host holds."""
        return host_peaks_bytes(self.tables, self.starts)

    @cached_property
    def _spans_ns(self) -> tuple[int, int]:
        return spans_ns(self.tables, self.starts)


def timed(
    problem: PipelineProblem, orders: Orders | OrderArrays, tables: Tables | None = None
) -> TimedClassic:
    """Exact times of orders without offloads, limits ignored. Raises `OrderError` on deadlock."""
    if tables is None:
        tables = tables_of(problem)
    if isinstance(orders, Orders):
        orders = order_arrays(tables, orders)
    return TimedClassic(problem, tables, earliest_starts(tables, orders))


def timed_fused(problem: PipelineProblem, orders: Orders) -> TimedClassic:
    """Exact times of orders without W tokens in which W follows its B at once.

    A gradient is sent only after W, as where the whole backward is one operation.
    """
    tables = tables_of(problem)
    _, backward, weight = compute_durations(tables)
    ops = tables.ops.copy()
    by_kind = ops.reshape(5, *weight.shape, -1)[..., DURATION]
    by_kind[BACKWARD] += weight
    by_kind[WEIGHT] = 0
    starts = earliest_starts(tables._replace(ops=ops), order_arrays(tables, orders))
    starts[WEIGHT] = np.where(weight > 0, starts[BACKWARD] + backward, -1)
    return TimedClassic(problem, tables, starts)


def from_schedule(problem: PipelineProblem, schedule: Schedule) -> TimedClassic:
    """The arrays of a schedule."""
    tables = tables_of(problem)
    starts = np.full(len(tables.ops), -1, np.int64)
    numbers = operation_numbers(tables, (op.token for op in schedule.ops))
    starts[numbers] = [op.start_ns for op in schedule.ops]
    return TimedClassic(problem, tables, shaped(tables, starts))
