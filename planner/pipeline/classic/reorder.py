"""Filling the warm-up and the cool-down of a repeated V-shaped block (arXiv 2405.15362, "reorder").

Memory is short only in the steady part. Before the first device's first backward of its first
chunk, and after its last forward of it, operations move to the earliest free slot after what they
depend on, as long as no device holds more chunks than the repeated block does.
"""

from __future__ import annotations

import numpy as np

from planner.compiled import compiled
from planner.pipeline.kernel.tables import Integers


def reordered(slots: Integers) -> tuple[Integers, Integers]:
    """Slots of F down, F up, B down and B up by device and micro-batch, and of each device's W.

    `slots[device, kind, micro-batch]` are those of the repeated block; W take the free slots, the
    k-th of a device after its k-th backward.
    """
    steady = int(slots[0, 3, 0]), int(slots[0, 0, -1])
    length = int(slots.max()) + 2 * slots.shape[2] + 1
    weights = _weight_slots(slots, length)
    peak = _peak(slots, weights, length)
    moved, moved_weights = _left_shift(slots, weights, length, steady, peak)
    moved, moved_weights = _squeezed(moved, moved_weights, length)
    again = _left_shift_cool_down(moved, length, int(moved[0, 0, -1]), peak)
    again, _ = _squeezed(again, _weight_slots(again, length), length)
    again_weights = _weight_slots(again, length)
    if _peak(again, again_weights, length) <= peak:
        return again, again_weights
    return moved, moved_weights


@compiled
def _weight_slots(slots: Integers, length: int) -> Integers:
    """W in the slots that nothing else takes, as soon as its backward is over."""
    devices, _, count = slots.shape
    weights = np.zeros((devices, 2 * count), np.int64)
    for d in range(devices):
        kinds = np.full(length, -1)
        for kind in range(4):
            for m in range(count):
                kinds[slots[d, kind, m]] = kind
        backwards = done = 0
        for t in range(length):
            if kinds[t] >= 2:
                backwards += 1
            elif kinds[t] < 0 and done < backwards:
                weights[d, done] = t
                done += 1
    return weights


@compiled
def _held(slots: Integers, weights: Integers, length: int) -> Integers:
    """Chunks that each device holds after each slot."""
    devices, _, count = slots.shape
    held = np.zeros((devices, length), np.int64)
    for d in range(devices):
        for m in range(count):
            held[d, slots[d, 0, m]] += 1
            held[d, slots[d, 1, m]] += 1
            held[d, weights[d, 2 * m]] -= 1
            held[d, weights[d, 2 * m + 1]] -= 1
        for t in range(1, length):
            held[d, t] += held[d, t - 1]
    return held


@compiled
def _peak(slots: Integers, weights: Integers, length: int) -> int:
    return int(_held(slots, weights, length).max())


@compiled
def _after(slots: Integers, d: int, kind: int, m: int) -> int:
    """The first slot after what an F or B depends on."""
    devices = len(slots)
    after = 0
    if kind % 2 == 0 and d:
        after = slots[d - 1, kind, m] + 1
    if kind % 2 == 1 and d + 1 < devices:
        after = slots[d + 1, kind, m] + 1
    if kind:
        after = max(after, slots[d, kind - 1, m] + 1)
    if m:
        after = max(after, slots[d, kind, m - 1] + 1)
    return after


@compiled
def _taken(slots: Integers, length: int) -> Integers:
    """Which F or B (kind x micro-batches + micro-batch) each device runs in each slot, or -1."""
    devices, _, count = slots.shape
    taken = np.full((devices, length), -1)
    for d in range(devices):
        for kind in range(4):
            for m in range(count):
                taken[d, slots[d, kind, m]] = kind * count + m
    return taken


@compiled
def _left_shift(
    slots: Integers, weights: Integers, length: int, steady: tuple[int, int], peak: int
) -> tuple[Integers, Integers]:
    devices, _, count = slots.shape
    slots, weights = slots.copy(), weights.copy()
    held = _held(slots, weights, length)
    taken = _taken(slots, length)
    for d in range(devices):
        for k in range(2 * count):
            taken[d, weights[d, k]] = 4 * count + k
    ended = np.zeros((devices, 2 * count), np.int64)
    backwards = np.zeros(devices, np.int64)
    for t in range(length):
        for d in range(devices):
            what = taken[d, t]
            if what < 0:
                continue
            kind, m = min(4, what // count), what % count
            k = what - 4 * count
            new = t
            if t < steady[0] or t > steady[1]:
                if kind < 4:
                    after = _after(slots, d, kind, m)
                else:
                    after = ended[d, k] + 1
                    if k:
                        after = max(after, weights[d, k - 1] + 1)
                for u in range(after, t):
                    if taken[d, u] < 0:
                        if kind < 2 and held[d, u:t].max() >= peak:
                            continue
                        new = u
                        break
            if new < t:
                taken[d, t], taken[d, new] = -1, what
                if kind < 4:
                    slots[d, kind, m] = new
                else:
                    weights[d, k] = new
                if kind < 2:
                    held[d, new:t] += 1
                elif kind == 4:
                    held[d, new:t] -= 1
            if kind == 2 or kind == 3:
                ended[d, backwards[d]] = new
                backwards[d] += 1
    for d in range(devices):
        # A backward that moved ahead of others changes which is the k-th.
        own = np.sort(np.concatenate((slots[d, 2], slots[d, 3])))
        for k in range(2 * count):
            if weights[d, k] <= own[k]:
                return slots, _weight_slots(slots, length)
    return slots, weights


@compiled
def _squeezed(slots: Integers, weights: Integers, length: int) -> tuple[Integers, Integers]:
    """The earliest slots in which everything runs in the same sequence on each device."""
    devices, _, count = slots.shape
    taken = _taken(slots, length)
    for d in range(devices):
        for k in range(2 * count):
            taken[d, weights[d, k]] = 4 * count + k
    slots, weights = slots.copy(), weights.copy()
    free = np.zeros(devices, np.int64)
    for t in range(length):
        for d in range(devices):
            what = taken[d, t]
            if what < 0:
                continue
            if what < 4 * count:
                kind, m = what // count, what % count
                slots[d, kind, m] = max(free[d], _after(slots, d, kind, m))
                free[d] = slots[d, kind, m] + 1
            else:
                weights[d, what - 4 * count] = free[d]
                free[d] += 1
    return slots, weights


@compiled
def _left_shift_cool_down(slots: Integers, length: int, after_slot: int, peak: int) -> Integers:
    """What comes after the first device's last forward moves to the earliest possible slot, with W
    in whatever slots are left."""
    devices, _, count = slots.shape
    slots = slots.copy()
    taken = _taken(slots, length)
    # What each device holds, and how many W it owes, once the steady part is over.
    state = np.zeros((devices, 2), np.int64)
    for d in range(devices):
        state[d] = _run_slots(taken[d], 0, after_slot + 1, count, 0, 0)[:2]
    for t in range(after_slot + 1, length):
        for d in range(devices):
            what = taken[d, t]
            if what < 0:
                continue
            kind, m = what // count, what % count
            for u in range(max(after_slot + 1, _after(slots, d, kind, m)), t):
                if taken[d, u] >= 0:
                    continue
                taken[d, t], taken[d, u] = -1, what
                most = _run_slots(
                    taken[d], after_slot + 1, length, count, state[d, 0], state[d, 1]
                )[2]
                if most <= peak:
                    slots[d, kind, m] = u
                    break
                taken[d, t], taken[d, u] = what, -1
    return slots


@compiled
def _run_slots(
    taken: Integers, start: int, stop: int, count: int, held: int, owed: int
) -> tuple[int, int, int]:
    """Chunks held and W owed after some slots of one device, and the most that it held."""
    most = held
    for t in range(start, stop):
        if taken[t] < 0:
            if owed:
                owed -= 1
                held -= 1
        elif taken[t] < 2 * count:
            held += 1
            most = max(most, held)
        else:
            owed += 1
    return held, owed, most
