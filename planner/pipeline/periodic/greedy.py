"""A compiled list scheduler for one stage per device, without offloads.

Each idle device runs a backward if one is ready, else a forward if its cap and its memory let it,
else a weight gradient that ends before the next operation is known to arrive or that frees the
memory a forward waits for. That is the rule of Zero Bubble's heuristic (arXiv 2401.10241) with
caps per stage.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from planner.compiled import compiled
from planner.pipeline.kernel.tables import Integers
from planner.pipeline.periodic.one_chunk import OneChunk

FAR = 2**62


class GreedyPolicy(NamedTuple):
    """What the list scheduler leaves open, per stage.

    `in_flight` caps the forwards started before their backward starts. A forward may delay a
    backward that is known to arrive by `forward_delay_ns`, a weight gradient what is known to
    arrive by `weight_delay_ns`. Once `pending` weight gradients wait, one goes first.
    """

    in_flight: Integers
    pending: Integers
    forward_delay_ns: Integers
    weight_delay_ns: Integers


def greedy_starts(chunk: OneChunk, count: int, policy: GreedyPolicy) -> tuple[Integers, bool]:
    """Starts of `count` micro-batches: an array of kind (F, B, W), stage and micro-batch.

    The flag says whether all could run.
    """
    starts, complete = _greedy(chunk, count, policy)
    return starts, bool(complete)


@compiled
def _greedy(
    chunk: OneChunk,
    count: int,
    policy: GreedyPolicy,
) -> tuple[Integers, bool]:
    forward, backward, weight = chunk.forward, chunk.backward, chunk.weight
    activation, late = chunk.activation, chunk.late
    backward_allocation, limit = chunk.backward_allocation, chunk.limit
    stages = len(forward)
    starts = np.full((3, stages, count), -1, dtype=np.int64)
    next_f = np.zeros(stages, dtype=np.int64)
    next_b = np.zeros(stages, dtype=np.int64)
    next_w = np.zeros(stages, dtype=np.int64)
    ended_b = np.zeros(stages, dtype=np.int64)
    used = np.zeros(stages, dtype=np.int64)
    free = np.zeros(stages, dtype=np.int64)
    f_ready = np.full((stages, count), FAR, dtype=np.int64)
    b_ready = np.full((stages, count), FAR, dtype=np.int64)
    f_ready[0, :] = 0
    dirty = np.ones(stages, dtype=np.bool_)
    # What ends: kind 1 (B), 2 (W), or 0 where a device only has to look again.
    events = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    now = np.int64(0)
    while True:
        for s in range(stages):
            if not dirty[s]:
                continue
            dirty[s] = False
            # Operations of no length may follow one another at one instant.
            while free[s] <= now:
                coming = np.int64(FAR)
                blocked = False
                choice = -1
                m = next_b[s]
                if m < next_f[s]:
                    if b_ready[s, m] > now:
                        coming = b_ready[s, m]
                    elif used[s] + backward_allocation[s] <= limit[s]:
                        choice = 1
                    else:
                        blocked = True
                if choice < 0:
                    m = next_f[s]
                    if m < count and m - next_b[s] < policy.in_flight[s]:
                        if f_ready[s, m] > now:
                            coming = min(coming, f_ready[s, m])
                        elif used[s] + activation[s] + backward_allocation[s] > limit[s]:
                            blocked = True
                        elif now + forward[s] <= coming + policy.forward_delay_ns[s]:
                            choice = 0
                waiting = ended_b[s] - next_w[s] if weight[s] > 0 else 0
                if waiting >= policy.pending[s] or (
                    choice < 0
                    and waiting > 0
                    and (blocked or now + weight[s] <= coming + policy.weight_delay_ns[s])
                ):
                    choice = 2
                if choice < 0:
                    break
                if choice == 0:
                    m = next_f[s]
                    starts[0, s, m] = now
                    end = now + forward[s]
                    used[s] += activation[s]
                    next_f[s] += 1
                    if s + 1 < stages:
                        f_ready[s + 1, m] = end + chunk.forward_hop[s]
                        heappush(events, (f_ready[s + 1, m], np.int64(0), np.int64(s + 1)))
                    else:
                        b_ready[s, m] = end
                elif choice == 1:
                    m = next_b[s]
                    starts[1, s, m] = now
                    end = now + backward[s]
                    used[s] += backward_allocation[s]
                    next_b[s] += 1
                    if s > 0:
                        b_ready[s - 1, m] = end + chunk.backward_hop[s - 1]
                        heappush(events, (b_ready[s - 1, m], np.int64(0), np.int64(s - 1)))
                else:
                    m = next_w[s]
                    starts[2, s, m] = now
                    end = now + weight[s]
                    next_w[s] += 1
                free[s] = end
                heappush(events, (end, np.int64(choice), np.int64(s)))
                if end == now:
                    # It must have ended before the next one is chosen.
                    break
        if len(events) == 0:
            break
        now = events[0][0]
        while len(events) > 0 and events[0][0] == now:
            _, what, where = heappop(events)
            dirty[where] = True
            if what == 1:
                ended_b[where] += 1
                used[where] -= activation[where] - late[where] + backward_allocation[where]
            elif what == 2:
                used[where] -= late[where]
    complete = True
    for s in range(stages):
        complete = complete and next_b[s] == count and (weight[s] == 0 or next_w[s] == count)
    return starts, complete
