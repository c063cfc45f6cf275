"""A compiled list scheduler for one stage per device.

Each idle device runs a backward if one is ready, else a forward if its cap and its memory let it,
else a weight gradient that ends before the next operation is known to arrive or that frees the
memory a forward waits for. That is the rule of Zero Bubble's heuristic (arXiv 2401.10241) with
caps per stage.

Offloads are first come, first served. Reloads follow the order of backwards, each a given number
of backwards ahead; of those that wait for one link the most urgent is first. Forwards leave the
room of one reload, so that the next backward can always run.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from planner.compiled import compiled
from planner.pipeline.kernel.tables import BACKWARD, FORWARD, OFFLOAD, RELOAD, WEIGHT, Integers
from planner.pipeline.periodic.one_chunk import OneChunk

FAR = 2**62
SHARES = 8
LOOK_AGAIN = -1


class GreedyPolicy(NamedTuple):
    """What the list scheduler leaves open, per stage.

    `in_flight` caps the forwards started before their backward starts. A forward may delay a
    backward that is known to arrive by `forward_delay_ns`, a weight gradient what is known to
    arrive by `weight_delay_ns`. Once `pending` weight gradients wait, one goes first. Of the
    activations `share` eighths are offloaded, but none whose backward is fewer than `near`
    backwards away when its forward ends. A reload begins when its backward is at most `ahead`
    backwards away.
    """

    in_flight: Integers
    pending: Integers
    forward_delay_ns: Integers
    weight_delay_ns: Integers
    share: Integers
    near: Integers
    ahead: Integers


def greedy_starts(chunk: OneChunk, count: int, policy: GreedyPolicy) -> tuple[Integers, bool]:
    """Starts of `count` micro-batches: an array of kind (F, B, W, R, O), stage and micro-batch.

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
    starts = np.full((5, stages, count), -1, dtype=np.int64)
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
    # Micro-batches to offload in their order: how many there are, are gone, and are on their way
    # back. The next O and R are those of `away[s, gone[s]]` and `away[s, back[s]]`.
    away = np.zeros((stages, count), dtype=np.int64)
    chosen = np.zeros(stages, dtype=np.int64)
    sent = np.zeros(stages, dtype=np.int64)
    gone = np.zeros(stages, dtype=np.int64)
    back = np.zeros(stages, dtype=np.int64)
    is_away = np.zeros((stages, count), dtype=np.bool_)
    channel_free = np.zeros(chunk.channels, dtype=np.int64)
    host_used = np.zeros(len(chunk.host_limit), dtype=np.int64)
    offloads = False
    for s in range(stages):
        offloads = offloads or (policy.share[s] > 0 and chunk.offload[s] > 0)
    first_sender = np.zeros(chunk.channels + 1, dtype=np.int64)
    senders = np.zeros(stages, dtype=np.int64)
    first_receiver = np.zeros(chunk.channels + 1, dtype=np.int64)
    receivers = np.zeros(stages, dtype=np.int64)
    _group(chunk.offload_channel, first_sender, senders)
    _group(chunk.reload_channel, first_receiver, receivers)
    # What ends, or `LOOK_AGAIN`, and where.
    events = [(np.int64(0), np.int64(0), np.int64(0)) for _ in range(0)]
    now = np.int64(0)
    while True:
        for s in range(stages):
            if not dirty[s]:
                continue
            # Operations of no length may follow one another at one instant.
            while free[s] <= now:
                coming = np.int64(FAR)
                blocked = False
                choice = -1
                m = next_b[s]
                if m < next_f[s]:
                    if is_away[s, m]:
                        # Its reload may wait for memory.
                        blocked = True
                    elif b_ready[s, m] > now:
                        coming = b_ready[s, m]
                    elif used[s] + backward_allocation[s] <= limit[s]:
                        choice = BACKWARD
                    else:
                        blocked = True
                if choice < 0:
                    m = next_f[s]
                    if m < count and m - next_b[s] < policy.in_flight[s]:
                        needed = activation[s] + backward_allocation[s]
                        if back[s] < chosen[s]:
                            needed += chunk.offload[s]
                        if f_ready[s, m] > now:
                            coming = min(coming, f_ready[s, m])
                        elif used[s] + needed > limit[s]:
                            blocked = True
                        elif now + forward[s] <= coming + policy.forward_delay_ns[s]:
                            choice = FORWARD
                waiting = ended_b[s] - next_w[s] if weight[s] > 0 else 0
                if waiting >= policy.pending[s] or (
                    choice < 0
                    and waiting > 0
                    and (blocked or now + weight[s] <= coming + policy.weight_delay_ns[s])
                ):
                    choice = WEIGHT
                if choice < 0:
                    break
                if choice == FORWARD:
                    m = next_f[s]
                    end = now + forward[s]
                    used[s] += activation[s]
                    next_f[s] += 1
                    if s + 1 < stages:
                        f_ready[s + 1, m] = end + chunk.forward_hop[s]
                        heappush(events, (f_ready[s + 1, m], np.int64(LOOK_AGAIN), np.int64(s + 1)))
                    else:
                        b_ready[s, m] = end
                    share = policy.share[s] if chunk.offload[s] > 0 else np.int64(0)
                    if (m + 1) * share // SHARES > m * share // SHARES and (
                        m - next_b[s] >= policy.near[s]
                    ):
                        away[s, chosen[s]] = m
                        chosen[s] += 1
                        is_away[s, m] = True
                elif choice == BACKWARD:
                    m = next_b[s]
                    end = now + backward[s]
                    used[s] += backward_allocation[s]
                    next_b[s] += 1
                    if s > 0:
                        b_ready[s - 1, m] = end + chunk.backward_hop[s - 1]
                        heappush(events, (b_ready[s - 1, m], np.int64(LOOK_AGAIN), np.int64(s - 1)))
                else:
                    m = next_w[s]
                    end = now + weight[s]
                    next_w[s] += 1
                starts[choice, s, m] = now
                free[s] = end
                heappush(events, (end, np.int64(choice), np.int64(s)))
                if end == now:
                    # It must have ended before the next one is chosen.
                    break
        if offloads:
            for d in range(stages):
                if not dirty[d]:
                    continue
                c = chunk.reload_channel[d]
                if channel_free[c] <= now:
                    s = _most_urgent(
                        chunk,
                        policy.ahead,
                        receivers[first_receiver[c] : first_receiver[c + 1]],
                        away,
                        gone,
                        back,
                        next_b,
                        used,
                    )
                    if s >= 0:
                        m = away[s, back[s]]
                        back[s] += 1
                        used[s] += chunk.offload[s]
                        starts[RELOAD, s, m] = now
                        channel_free[c] = now + chunk.reload_ns[s]
                        heappush(events, (channel_free[c], np.int64(RELOAD), np.int64(s)))
                c = chunk.offload_channel[d]
                if channel_free[c] <= now:
                    s = _longest_waiting(
                        chunk,
                        now,
                        senders[first_sender[c] : first_sender[c + 1]],
                        away,
                        chosen,
                        sent,
                        starts[FORWARD],
                        host_used,
                    )
                    if s >= 0:
                        m = away[s, sent[s]]
                        sent[s] += 1
                        starts[OFFLOAD, s, m] = now
                        if chunk.host[s] >= 0:
                            host_used[chunk.host[s]] += chunk.offload[s]
                        channel_free[c] = now + chunk.offload_ns[s]
                        heappush(events, (channel_free[c], np.int64(OFFLOAD), np.int64(s)))
        dirty[:] = False
        if len(events) == 0:
            break
        now = events[0][0]
        while len(events) > 0 and events[0][0] == now:
            _, what, where = heappop(events)
            dirty[where] = True
            if what == BACKWARD:
                ended_b[where] += 1
                used[where] -= activation[where] - late[where] + backward_allocation[where]
            elif what == WEIGHT:
                used[where] -= late[where]
            elif what == OFFLOAD:
                used[where] -= chunk.offload[where]
                gone[where] += 1
                c = chunk.offload_channel[where]
                dirty[senders[first_sender[c] : first_sender[c + 1]]] = True
            elif what == RELOAD:
                if chunk.host[where] >= 0:
                    host_used[chunk.host[where]] -= chunk.offload[where]
                    dirty[:] = True
                c = chunk.reload_channel[where]
                dirty[receivers[first_receiver[c] : first_receiver[c + 1]]] = True
                # Reloads of a stage end in their order; B finds the first one that has not.
                m = next_b[where]
                while not is_away[where, m]:
                    m += 1
                is_away[where, m] = False
    complete = True
    for s in range(stages):
        complete = complete and next_b[s] == count and (weight[s] == 0 or next_w[s] == count)
    return starts, complete


@compiled
def _group(channels: Integers, first: Integers, members: Integers) -> None:
    """The stages of each channel: `members[first[c] : first[c + 1]]`."""
    k = 0
    for c in range(len(first) - 1):
        first[c] = k
        for s in range(len(channels)):
            if channels[s] == c:
                members[k] = s
                k += 1
    first[-1] = k


@compiled
def _most_urgent(
    chunk: OneChunk,
    ahead: Integers,
    receivers: Integers,
    away: Integers,
    gone: Integers,
    back: Integers,
    next_b: Integers,
    used: Integers,
) -> int:
    """The stage whose next reload is due, possible, and the fewest backwards away; or -1."""
    found, least = -1, np.int64(FAR)
    for s in receivers:
        if back[s] == gone[s]:
            continue
        distance = away[s, back[s]] - next_b[s]
        if (
            distance <= ahead[s]
            and distance < least
            and used[s] + chunk.offload[s] + chunk.backward_allocation[s] <= chunk.limit[s]
        ):
            found, least = s, distance
    return found


@compiled
def _longest_waiting(
    chunk: OneChunk,
    now: int | np.int64,
    senders: Integers,
    away: Integers,
    chosen: Integers,
    sent: Integers,
    forward_start: Integers,
    host_used: Integers,
) -> int:
    """The stage whose next offload became possible first and fits into its host; or -1."""
    found, least = -1, np.int64(FAR)
    for s in senders:
        if sent[s] == chosen[s]:
            continue
        ready = forward_start[s, away[s, sent[s]]] + chunk.forward[s]
        h = chunk.host[s]
        if (
            ready <= now
            and ready < least
            and (h < 0 or host_used[h] + chunk.offload[s] <= chunk.host_limit[h])
        ):
            found, least = s, ready
    return found
