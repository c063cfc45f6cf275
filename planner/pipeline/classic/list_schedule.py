"""List scheduling without offloads, compiled: the dispatcher's choices on flat arrays.

The rules are those of `dispatch.list_scheduling`: an idle device prefers a backward, then a
forward unless that would delay a backward that is known to arrive, then a weight gradient that
fills the gap. Since nothing but a device's own operations changes its memory, a device is looked
at only when it is idle. An operation that takes no time may start a little earlier than its
device's turn in the dispatcher; the orders are valid all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.compiled import compiled
from planner.errors import OrderError
from planner.pipeline.kernel.orders import OrderArrays, joined
from planner.pipeline.kernel.tables import (
    ALLOCATED,
    BACKWARD,
    FORWARD,
    FREED,
    LAG,
    LIMIT,
    UNLIMITED,
    WEIGHT,
    Integers,
    Tables,
    compute_durations,
    device_of_stage,
    grid,
)

FAR = 2**62


@dataclass(frozen=True)
class ListPolicy:
    """The choices of `DispatchPolicy` that matter without offloads; delays of FAR never bind.

    `in_flight`, `held` and `warm_up` have one entry per stage; the delays are nanoseconds by
    which a forward before the first backward, a later forward, or a weight gradient may delay a
    backward that is known to arrive.
    """

    in_flight: tuple[int, ...]
    held: tuple[int, ...]
    warm_up: tuple[int, ...]
    first_backward_delay_ns: int = FAR
    forward_delay_ns: int = FAR
    weight_delay_ns: int = FAR
    weight_first: bool = False
    deep_first: bool = True


def list_schedule(tables: Tables, policy: ListPolicy) -> OrderArrays:
    """The orders in which the policy starts the operations, within the limits of devices.

    Raises `OrderError` where one micro-batch at a time does not fit without offloads.
    """
    sequences, lengths, ended = _list_schedule(
        tables,
        np.array(policy.in_flight),
        np.array(policy.held),
        np.array(policy.warm_up),
        np.array([policy.first_backward_delay_ns, policy.forward_delay_ns, policy.weight_delay_ns]),
        policy.weight_first,
        policy.deep_first,
    )
    if ended < tables.stages * tables.micro_batches:
        raise OrderError("nothing more can start")
    return joined([sequences[d, :length] for d, length in enumerate(lengths.tolist())])


@compiled
def _outlook(
    m: int,
    stages: Integers,
    chunks: int,
    phase: Integers,
    activation: Integers,
    allocation: Integers,
) -> tuple[int, int]:
    """Bytes that the micro-batch holds on a device, W aside, and the most it will hold there.

    `phase[stage, micro-batch]` is 0 before F, 1 from F's start on and 2 from B's start on.
    """
    held = 0
    for c in range(chunks):
        if phase[stages[c], m] == 1:
            held += activation[stages[c], m]
    now = peak = held
    for c in range(chunks):
        if phase[stages[c], m] == 0:
            now += activation[stages[c], m]
            peak = max(peak, now)
    for c in range(chunks - 1, -1, -1):
        if phase[stages[c], m] != 2:
            peak = max(peak, now + allocation[stages[c], m])
            now -= activation[stages[c], m]
    return held, peak


@compiled
def _is_safe(
    s: int,
    m: int,
    limit: int,
    stages: Integers,
    chunks: int,
    phase: Integers,
    activation: Integers,
    allocation: Integers,
    held: Integers,
    peak: Integers,
    oldest: int,
    newest: int,
) -> bool:
    """The banker's rule: whether every micro-batch, oldest first, can still go through."""
    if limit == UNLIMITED:
        return True
    phase[s, m] = 1
    own_held, own_peak = _outlook(m, stages, chunks, phase, activation, allocation)
    phase[s, m] = 0
    younger = 0
    for k in range(m + 1, newest + 1):
        younger += held[k]
    if own_peak + younger > limit:
        return False
    younger += own_held
    for k in range(m - 1, oldest - 1, -1):
        if peak[k] + younger > limit:
            return False
        younger += held[k]
    return True


@compiled
def _list_schedule(
    tables: Tables,
    in_flight: Integers,
    held_cap: Integers,
    warm_up: Integers,
    delays: Integers,
    weight_first: bool,
    deep_first: bool,
) -> tuple[Integers, Integers, int]:
    """Sequences by device, their lengths, and how many backwards ran."""
    far = FAR
    durations = compute_durations(tables)
    has_weight = durations[WEIGHT] > 0
    # The latency before an operation is that of its own stage.
    forward_lag, backward_lag = grid(tables, FORWARD, LAG), grid(tables, BACKWARD, LAG)
    activation, allocation = grid(tables, FORWARD, ALLOCATED), grid(tables, BACKWARD, ALLOCATED)
    backward_free, late = grid(tables, BACKWARD, FREED), grid(tables, WEIGHT, FREED)
    device_of, limits = device_of_stage(tables), tables.devices[:, LIMIT].copy()
    stages, count = tables.stages, tables.micro_batches
    devices = len(limits)
    chunk_count = np.zeros(devices, np.int64)
    for s in range(stages):
        chunk_count[device_of[s]] += 1
    chunks = np.zeros((devices, max(1, chunk_count.max())), np.int64)
    chunk_count[:] = 0
    for s in range(stages):
        d = device_of[s]
        chunks[d, chunk_count[d]] = s
        chunk_count[d] += 1
    sequences = np.zeros((devices, 3 * count * chunk_count.max()), np.int64)
    lengths = np.zeros(devices, np.int64)
    next_f = np.zeros(stages, np.int64)
    next_b = np.zeros(stages, np.int64)
    next_w = np.zeros(stages, np.int64)
    f_ready = np.full((stages, count), far)
    f_ready[0] = 0
    b_ready = np.full((stages, count), far)
    phase = np.zeros((stages, count), np.int64)
    used = np.zeros(devices, np.int64)
    held = np.zeros((devices, count), np.int64)
    peak = np.zeros((devices, count), np.int64)
    oldest = np.zeros(devices, np.int64)
    newest = np.full(devices, -1)
    free = np.zeros(devices, np.int64)
    wake = np.zeros(devices, np.int64)
    seen = np.zeros(devices, np.bool_)
    latest = 0
    total = 0
    while True:
        d = int(np.argmin(wake))
        now = wake[d]
        forced = now >= far
        kind, chosen = -1, -1
        if forced:
            # Nothing is under way: let go on what the policy holds back, W first, then the oldest.
            now = latest
            for e in range(devices):
                if kind < 0:
                    for c in range(chunk_count[e]):
                        if next_w[chunks[e, c]] < next_b[chunks[e, c]]:
                            kind, chosen = 2, chunks[e, c]
            m = next_b.min()
            while kind < 0 and m < count:
                for s in range(stages):
                    e = device_of[s]
                    fits = used[e] + activation[s, m] <= limits[e]
                    if (
                        kind < 0
                        and next_f[s] == m
                        and f_ready[s, m] <= now
                        and fits
                        and _is_safe(
                            s, m, limits[e], chunks[e], chunk_count[e], phase, activation,
                            allocation, held[e], peak[e], oldest[e], newest[e],
                        )
                    ):  # fmt: skip
                        kind, chosen = 0, s
                m += 1
            if kind < 0:
                break
            d = device_of[chosen]
        else:
            backward, backward_m, coming_backward, short = -1, count, far, False
            for c in range(chunk_count[d]):
                s = chunks[d, c]
                m = next_b[s]
                if m >= next_f[s]:
                    continue
                if b_ready[s, m] > now:
                    coming_backward = min(coming_backward, b_ready[s, m])
                elif used[d] + allocation[s, m] > limits[d]:
                    short = True
                elif m < backward_m or (m == backward_m and s > backward):
                    backward, backward_m = s, m
            forward, coming_forward, crowded = -1, far, False
            for c in range(chunk_count[d]):
                s = chunks[d, chunk_count[d] - 1 - c] if deep_first else chunks[d, c]
                m = next_f[s]
                if m == count or m - next_b[s] >= in_flight[s] or m - next_w[s] >= held_cap[s]:
                    continue
                if f_ready[s, m] > now:
                    coming_forward = min(coming_forward, f_ready[s, m])
                    continue
                if not _is_safe(
                    s, m, limits[d], chunks[d], chunk_count[d], phase, activation,
                    allocation, held[d], peak[d], oldest[d], newest[d],
                ):  # fmt: skip
                    continue
                if used[d] + activation[s, m] <= limits[d]:
                    forward = s
                    crowded = False
                    break
                crowded = True
            weight, weight_m = -1, count
            for c in range(chunk_count[d]):
                s = chunks[d, c]
                if next_w[s] < next_b[s] and next_w[s] < weight_m:
                    weight, weight_m = s, next_w[s]
            if backward >= 0 and (forward < 0 or next_f[forward] >= warm_up[forward]):
                kind, chosen = 1, backward
            elif weight >= 0 and (weight_first or short or crowded):
                kind, chosen = 2, weight
            elif forward >= 0:
                tolerance = delays[1] if seen[d] else delays[0]
                end = now + durations[0, forward, next_f[forward]]
                if tolerance >= far or end <= coming_backward + tolerance:
                    kind, chosen = 0, forward
            if kind < 0 and weight >= 0:
                end = now + durations[2, weight, weight_m]
                if delays[2] >= far or end <= min(coming_backward, coming_forward) + delays[2]:
                    kind, chosen = 2, weight
            if kind < 0:
                wake[d] = min(coming_backward, coming_forward)
                continue
        s = chosen
        if kind == 0:
            m = next_f[s]
            next_f[s] += 1
            used[d] += activation[s, m]
            phase[s, m] = 1
            newest[d] = max(newest[d], m)
            end = now + durations[0, s, m]
            if s + 1 < stages:
                f_ready[s + 1, m] = end + forward_lag[s + 1, m]
                e, arrival = device_of[s + 1], f_ready[s + 1, m]
            else:
                b_ready[s, m] = end
                e, arrival = d, end
        elif kind == 1:
            m = next_b[s]
            next_b[s] += 1
            total += 1
            seen[d] = True
            phase[s, m] = 2
            used[d] += allocation[s, m] - backward_free[s, m]
            end = now + durations[1, s, m]
            e, arrival = d, end
            if s:
                b_ready[s - 1, m] = end + backward_lag[s - 1, m]
                e, arrival = device_of[s - 1], b_ready[s - 1, m]
            # A fused backward is done with its W as soon as its turn comes.
            while next_w[s] < next_b[s] and not has_weight[s, next_w[s]]:
                next_w[s] += 1
        else:
            m = next_w[s]
            next_w[s] += 1
            used[d] -= late[s, m]
            end = now + durations[2, s, m]
            e, arrival = d, end
            while next_w[s] < next_b[s] and not has_weight[s, next_w[s]]:
                next_w[s] += 1
        if kind < 2:
            held[d, m], peak[d, m] = _outlook(
                m, chunks[d], chunk_count[d], phase, activation, allocation
            )
            while oldest[d] <= newest[d]:
                spent = True
                for c in range(chunk_count[d]):
                    spent = spent and phase[chunks[d, c], oldest[d]] == 2
                if not spent:
                    break
                oldest[d] += 1
        sequences[d, lengths[d]] = (kind * stages + s) * count + m
        lengths[d] += 1
        latest = max(latest, end)
        free[d] = end
        wake[d] = end
        if e != d:
            wake[e] = min(wake[e], max(arrival, free[e]))
    return sequences, lengths, total
