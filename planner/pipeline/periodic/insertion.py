"""Micro-batch after micro-batch, each into the gaps that the earlier ones have left.

Where memory sets the pace, what counts is how long a micro-batch is held, not how busy devices
are. So each micro-batch passes down and up the stages as directly as the gaps allow, entering as
late as it can without ending later, and a weight gradient runs in a gap when its memory is needed,
or `lag` micro-batches later. (A serial schedule generation scheme; Kolisch, 1996.)
"""

from __future__ import annotations

import numpy as np

from planner.compiled import compiled
from planner.pipeline.kernel.tables import Integers
from planner.pipeline.periodic.one_chunk import OneChunk

FAR = 2**62


def insertion_starts(chunk: OneChunk, count: int, lag: int) -> tuple[Integers, bool]:
    """Starts of `count` micro-batches: an array of kind (F, B, W), stage and micro-batch.

    The flag says whether all could be placed.
    """
    starts, complete = _insert(chunk, count, lag)
    return starts, bool(complete)


@compiled
def _first_gap(
    starts: Integers, ends: Integers, size: int, hint: int, at: int | np.int64, length: int
) -> int | np.int64:
    """The earliest start from `at` on of a gap of this length; `hint` is where to look first."""
    k = hint
    while k > 0 and ends[k - 1] > at:
        k -= 1
    start = at
    while k < size:
        if ends[k] > start:
            if starts[k] >= start + length:
                break
            start = ends[k]
        k += 1
    return start


@compiled
def _last_gap(
    starts: Integers, ends: Integers, size: int, least: int, end: int, length: int
) -> int:
    """The latest start in `least`.. of a gap of this length that ends by `end`; `least` is one."""
    k = size - 1
    start = end - length
    while k >= 0 and start > least:
        if starts[k] < start + length and ends[k] > start:
            start = starts[k] - length
        elif ends[k] <= start:
            break
        k -= 1
    return max(start, least)


@compiled
def _occupy(starts: Integers, ends: Integers, size: int, start: int | np.int64, length: int) -> int:
    """Insert an interval and return how many there are."""
    if length == 0:
        return size
    k = size
    while k > 0 and starts[k - 1] >= start:
        starts[k] = starts[k - 1]
        ends[k] = ends[k - 1]
        k -= 1
    starts[k] = start
    ends[k] = start + length
    return size + 1


@compiled
def _place_weight(
    starts: Integers,
    busy_from: Integers,
    busy_to: Integers,
    size: Integers,
    placed: Integers,
    s: int,
    backward: int,
    weight: int,
) -> None:
    """Put the stage's next W into the earliest gap after its B and the W before it."""
    w = placed[s]
    after = starts[1, s, w] + backward
    if w > 0:
        after = max(after, starts[2, s, w - 1] + weight)
    start = _first_gap(busy_from[s], busy_to[s], size[s], size[s], after, weight)
    starts[2, s, w] = start
    size[s] = _occupy(busy_from[s], busy_to[s], size[s], start, weight)
    placed[s] += 1


@compiled
def _insert(
    chunk: OneChunk,
    count: int,
    lag: int,
) -> tuple[Integers, bool]:
    forward, backward, weight = chunk.forward, chunk.backward, chunk.weight
    forward_hop, backward_hop = chunk.forward_hop, chunk.backward_hop
    activation, late = chunk.activation, chunk.late
    stages = len(forward)
    starts = np.full((3, stages, count), -1, dtype=np.int64)
    busy_from = np.zeros((stages, 3 * count), dtype=np.int64)
    busy_to = np.zeros((stages, 3 * count), dtype=np.int64)
    size = np.zeros(stages, dtype=np.int64)
    placed_w = np.zeros(stages, dtype=np.int64)
    # How many B and W of a stage had ended when its last F started, and what was held then.
    spent_b = np.zeros(stages, dtype=np.int64)
    spent_w = np.zeros(stages, dtype=np.int64)
    held = np.zeros(stages, dtype=np.int64)
    for m in range(count):
        arrival = np.int64(0)
        for s in range(stages):
            at = arrival
            if m > 0:
                at = max(at, starts[0, s, m - 1] + forward[s])
            room = chunk.limit[s] - chunk.backward_allocation[s] - activation[s]
            while True:
                while spent_b[s] < m and starts[1, s, spent_b[s]] + backward[s] <= at:
                    held[s] -= activation[s] - late[s]
                    spent_b[s] += 1
                while (
                    spent_w[s] < min(spent_b[s], placed_w[s])
                    and starts[2, s, spent_w[s]] + weight[s] <= at
                ):
                    held[s] -= late[s]
                    spent_w[s] += 1
                if held[s] <= room:
                    break
                wait = np.int64(FAR)
                if spent_b[s] < m:
                    wait = starts[1, s, spent_b[s]] + backward[s]
                if late[s] > 0 and spent_w[s] < spent_b[s]:
                    w = spent_w[s]
                    if w == placed_w[s]:
                        _place_weight(
                            starts, busy_from, busy_to, size, placed_w, s, backward[s], weight[s]
                        )
                    wait = min(wait, starts[2, s, w] + weight[s])
                if wait == FAR:
                    return starts, False
                at = max(at, wait)
            start = _first_gap(busy_from[s], busy_to[s], size[s], size[s], at, forward[s])
            starts[0, s, m] = start
            arrival = start + forward[s] + forward_hop[s]
        # As late as it can be without delaying the last stage.
        for s in range(stages - 2, -1, -1):
            deadline = starts[0, s + 1, m] - forward_hop[s]
            starts[0, s, m] = _last_gap(
                busy_from[s], busy_to[s], size[s], starts[0, s, m], deadline, forward[s]
            )
        for s in range(stages):
            size[s] = _occupy(busy_from[s], busy_to[s], size[s], starts[0, s, m], forward[s])
            held[s] += activation[s]
        arrival = starts[0, stages - 1, m] + forward[stages - 1]
        for s in range(stages - 1, -1, -1):
            if m > 0:
                arrival = max(arrival, starts[1, s, m - 1] + backward[s])
            start = _first_gap(busy_from[s], busy_to[s], size[s], size[s], arrival, backward[s])
            starts[1, s, m] = start
            size[s] = _occupy(busy_from[s], busy_to[s], size[s], start, backward[s])
            if s > 0:
                arrival = start + backward[s] + backward_hop[s - 1]
        for s in range(stages):
            while weight[s] > 0 and (
                placed_w[s] <= m - lag or (m == count - 1 and placed_w[s] < count)
            ):
                _place_weight(starts, busy_from, busy_to, size, placed_w, s, backward[s], weight[s])
    return starts, True
