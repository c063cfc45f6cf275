"""Exact times of orders without offloads and without limits: the longest path to each operation.

Without transfers and limits an operation waits for at most three others: what it depends on, the
one before it on its device, and, if it takes no time, the micro-batch before it. The result is
what `time_orders(..., enforce_memory=False)` gives.
"""

from __future__ import annotations

import numpy as np

from planner.compiled import compiled
from planner.errors import OrderError
from planner.pipeline.kernel.orders import OrderArrays
from planner.pipeline.kernel.tables import (
    BACKWARD,
    FORWARD,
    LAG,
    RELOAD,
    WEIGHT,
    Integers,
    Tables,
    compute_durations,
    device_of_stage,
    grid,
)


def earliest_starts(tables: Tables, orders: OrderArrays) -> Integers:
    """The earliest start of each operation by kind, stage and micro-batch; -1 where there is none.

    Raises `OrderError` if the orders deadlock, or lack or repeat an operation.
    """
    starts = _earliest_starts(tables, *orders)
    exists = np.ones(starts[:RELOAD].shape, dtype=np.bool_)
    exists[WEIGHT] = compute_durations(tables)[WEIGHT] > 0
    if len(orders.numbers) != exists.sum() or np.any((starts[:RELOAD] >= 0) != exists):
        raise OrderError("the order cannot be executed, or lacks an operation")
    return starts


@compiled
def _earliest_starts(tables: Tables, numbers: Integers, first: Integers) -> Integers:
    durations = compute_durations(tables)
    # The latency before an operation is that of its own stage.
    forward_lag, backward_lag = grid(tables, FORWARD, LAG), grid(tables, BACKWARD, LAG)
    device_of = device_of_stage(tables)
    fixed_order = tables.fixed_order != 0
    stages, count = tables.stages, tables.micro_batches
    devices = len(first) - 1
    starts = np.full((5, stages, count), -1, np.int64)
    position = first[:-1].copy()
    began = np.zeros(devices, np.int64)
    free = np.zeros(devices, np.int64)
    # A stack of devices whose next operation may have become ready.
    stack = np.arange(devices)[::-1].copy()
    height = devices
    stacked = np.ones(devices, np.bool_)
    while height:
        height -= 1
        d = stack[height]
        stacked[d] = False
        while position[d] < first[d + 1]:
            number = numbers[position[d]]
            kind, s, m = (
                number // (stages * count),
                number // count % stages,
                number % count,
            )
            if starts[kind, s, m] >= 0:
                return starts
            ready = 0
            if kind == 0:
                if s:
                    if starts[0, s - 1, m] < 0:
                        break
                    ready = starts[0, s - 1, m] + durations[0, s - 1, m] + forward_lag[s, m]
            elif kind == 1:
                if starts[0, s, m] < 0:
                    break
                ready = starts[0, s, m] + durations[0, s, m]
                if s + 1 < stages:
                    if starts[1, s + 1, m] < 0:
                        break
                    arrival = starts[1, s + 1, m] + durations[1, s + 1, m] + backward_lag[s, m]
                    ready = max(ready, arrival)
            else:
                if starts[1, s, m] < 0:
                    break
                ready = starts[1, s, m] + durations[1, s, m]
            if durations[kind, s, m]:
                ready = max(ready, free[d])
            elif fixed_order and m:
                if starts[kind, s, m - 1] < 0:
                    break
                ready = max(ready, starts[kind, s, m - 1] + durations[kind, s, m - 1])
            start = max(ready, began[d])
            starts[kind, s, m] = start
            began[d] = start
            if durations[kind, s, m]:
                free[d] = start + durations[kind, s, m]
            position[d] += 1
            other = -1
            if kind == 0 and s + 1 < stages:
                other = device_of[s + 1]
            elif kind == 1 and s:
                other = device_of[s - 1]
            if other >= 0 and other != d and not stacked[other]:
                stacked[other] = True
                stack[height] = other
                height += 1
    return starts
