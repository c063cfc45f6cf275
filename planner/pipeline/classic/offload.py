"""Offloads added to a timed schedule without moving its computation.

PipeOffload (arXiv 2503.01328) hides transfers behind computation: an activation goes out as soon
as its link is free after F and comes back as late as its link allows before B. What would not be
back in time stays.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from planner.compiled import compiled
from planner.pipeline.classic.timed import TimedClassic
from planner.pipeline.kernel.tables import (
    BACKWARD,
    CHANNEL,
    DURATION,
    FORWARD,
    OFFLOAD,
    RELOAD,
    Flags,
    Integers,
    grid,
)


def with_offloads(timed: TimedClassic, chosen: Flags) -> TimedClassic:
    """The same computation with the chosen (stage, micro-batch) offloaded where it costs no time.

    Links serve activations as they come or, better where a link cannot take all, those stages
    first that hold theirs longest: whichever leaves less in memory. Limits are ignored; they are
    what the result is compared with.
    """
    tables, starts = timed.tables, timed.starts
    able = tables.can_offload.reshape(chosen.shape) > 0
    stages, micro_batches = np.nonzero(able & chosen)
    if not len(stages):
        return timed
    ends = (starts[FORWARD] + grid(tables, FORWARD, DURATION))[stages, micro_batches]
    alive = (starts[BACKWARD] - starts[FORWARD]).mean(axis=1)[stages]
    return min(
        (
            _served_in_turn(timed, stages[line], micro_batches[line])
            for line in (np.lexsort((stages, ends)), np.lexsort((ends, stages, -alive)))
        ),
        key=lambda candidate: max(candidate.peak_memory_bytes),
    )


def _served_in_turn(timed: TimedClassic, stages: Integers, micro_batches: Integers) -> TimedClassic:
    """Each activation takes its places on the links after those before it in line."""
    tables, starts = timed.tables, timed.starts.copy()
    own = stages, micro_batches
    starts[OFFLOAD][own], starts[RELOAD][own] = _placed(
        starts[FORWARD][own] + grid(tables, FORWARD, DURATION)[own],
        starts[BACKWARD][own],
        grid(tables, OFFLOAD, DURATION)[own],
        grid(tables, RELOAD, DURATION)[own],
        grid(tables, OFFLOAD, CHANNEL)[own],
        grid(tables, RELOAD, CHANNEL)[own],
    )
    return replace(timed, starts=starts)


@compiled
def _placed(
    ready: Integers,
    due: Integers,
    out_ns: Integers,
    back_ns: Integers,
    out: Integers,
    back: Integers,
) -> Integers:
    """Starts of O and R of each activation in line, -1 for those that would not be back in time.

    `out` and `back` are the channels that O and R take; half duplex links have one for both.
    """
    channels = max(out.max(), back.max()) + 1
    room = np.zeros(channels, np.int64)
    for k in range(len(ready)):
        room[out[k]] += 1
        room[back[k]] += 1
    # The intervals in which a channel is taken, ascending.
    begins = np.zeros((channels, room.max()), np.int64)
    ends = np.zeros((channels, room.max()), np.int64)
    taken = np.zeros(channels, np.int64)
    starts = np.full((2, len(ready)), -1)
    for k in range(len(ready)):
        a, b = out[k], back[k]
        offload = _earliest(begins[a, : taken[a]], ends[a, : taken[a]], ready[k], out_ns[k])
        reload = _latest(begins[b, : taken[b]], ends[b, : taken[b]], due[k], back_ns[k])
        if reload < offload + out_ns[k]:
            continue
        starts[0, k], starts[1, k] = offload, reload
        _take(begins, ends, taken, a, offload, out_ns[k])
        _take(begins, ends, taken, b, reload, back_ns[k])
    return starts


@compiled
def _earliest(begins: Integers, ends: Integers, after: int, length: int) -> int:
    """The first start from `after` on at which the channel is free for so long."""
    start = after
    if length:
        for k in range(np.searchsorted(ends, after, side="right"), len(begins)):
            if start + length <= begins[k]:
                break
            start = ends[k]
    return start


@compiled
def _latest(begins: Integers, ends: Integers, before: int, length: int) -> int:
    """The last start at which the channel is free for so long and done by `before`; it may be
    negative."""
    end = before
    if length:
        for k in range(np.searchsorted(begins, before) - 1, -1, -1):
            if end - length >= ends[k]:
                break
            end = begins[k]
    return end - length


@compiled
def _take(
    begins: Integers, ends: Integers, taken: Integers, channel: int, start: int, length: int
) -> None:
    """Keep the channel taken from `start` on."""
    if not length:
        return
    k = taken[channel]
    taken[channel] += 1
    while k and begins[channel, k - 1] > start:
        begins[channel, k] = begins[channel, k - 1]
        ends[channel, k] = ends[channel, k - 1]
        k -= 1
    begins[channel, k] = start
    ends[channel, k] = start + length
