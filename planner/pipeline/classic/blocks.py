"""Schedules made by repeating a building block (arXiv 2405.15362, 2503.01328).

A block says in which slot each device runs each operation of one group of micro-batches; every
slot holds one operation, as if F, B and W took equal time. Blocks repeat at a fixed distance
without colliding, and surplus micro-batches of the last group are left out. What counts is the
sequence on each device: timing it under real costs closes the gaps (the papers call that
squeezing). Operations follow what they depend on in slots too, so the orders never deadlock.
"""

from __future__ import annotations

from math import ceil, gcd

import numpy as np

from planner.pipeline.classic.reorder import reordered
from planner.pipeline.kernel.orders import OrderArrays, joined
from planner.pipeline.kernel.tables import Integers
from planner.pipeline.problem import PipelineProblem

SLOTS = 3
"""Slots that one chunk's F, B and W of a micro-batch take."""


def least_group(problem: PipelineProblem, chunks: int) -> int:
    """The smallest group of micro-batches that keeps an interleaved pipeline busy.

    Half the ring, rounded up, for equal stages. Unequal ones need more: a micro-batch must get
    through a whole round of forwards, or of backwards, while the slowest device works off a group.
    """
    ring = len(problem.stages) // chunks
    means = [
        (sum(x.forward_ns), sum(x.backward_input_ns), sum(x.backward_weight_ns))
        for x in problem.stages
    ]
    slowest = max(map(sum, means))
    rounds = max(
        sum(means[c * ring + r][k] for r in range(ring)) for k in (0, 1) for c in range(chunks)
    )
    return max(ceil(ring / 2), min(ring, ceil(rounds / slowest) if slowest else 1))


def grouped_interleaved(
    problem: PipelineProblem, chunks: int, group: int, least: int
) -> OrderArrays:
    """The generalized interleaved schedule of PipeOffload (arXiv 2503.01328) on `chunks` rounds.

    Micro-batches pass chunk by chunk in groups, W right after B. Groups of p, the number of
    devices, are GIS: p(v - 1) + p - i forwards on device i first. Groups of g between p/2 and p
    are GIS-H, g(v - 1) + p - i forwards first. A group of 1 is the uniform repeat of PO-H and
    PO-F, where every chunk follows the one before it at the distance that groups of `least` have.
    """
    ring, count = len(problem.stages) // chunks, problem.micro_batches
    distance = SLOTS * group * ceil(least / group)
    period = SLOTS * group * chunks
    # Chunks whose distances are multiples of the period would collide.
    shared = chunks // gcd(chunks, ceil(least / group))
    chunk = np.arange(chunks)
    of_chunk = distance * chunk + SLOTS * group * (chunk // shared)
    m = np.arange(count)
    of_micro_batch = m // group * period + m % group * SLOTS
    sequences = []
    for r in range(ring):
        forwards = of_chunk[:, None] + of_micro_batch
        first_backward = of_chunk[-1] + SLOTS * (ring - 1 - r) + 1
        backwards = first_backward + of_chunk[::-1, None] + of_micro_batch
        slots = np.stack([forwards, backwards, backwards + 1])
        stages = chunk * ring + r
        sequences.append(_sorted(problem, slots, stages))
    return _by_device(problem, sequences)


def v_half(problem: PipelineProblem) -> OrderArrays:
    """V-Half (arXiv 2405.15362): half of 1F1B's memory, on a V-shaped placement."""
    ring = len(problem.stages) // 2
    gap = 0 if ring % 2 else 3
    r = np.arange(ring)
    return _v_shaped(
        problem,
        [2 * r, 3 * ring - r - 2, 3 * ring + gap + 2 * r - 1, 6 * ring + gap - r - 2],
    )


def v_min(problem: PipelineProblem) -> OrderArrays:
    """V-Min (arXiv 2405.15362): a third of 1F1B's memory, on a V-shaped placement."""
    ring = len(problem.stages) // 2
    gap = 0 if ring % 3 else 2
    r = np.arange(ring)
    return _v_shaped(problem, [r, 2 * ring - r - 1, 2 * ring + gap + r, 4 * ring + gap - r - 1])


def _v_shaped(problem: PipelineProblem, offsets: list[Integers]) -> OrderArrays:
    """Repeat the slots of F down, F up, B down, B up by device; then fill the ends better."""
    stages, count = len(problem.stages), problem.micro_batches
    ring = stages // 2
    slots = np.stack(offsets, axis=1)[:, :, None] + 2 * SLOTS * np.arange(count)
    forwards_and_backwards, weights = reordered(slots)
    sequences = []
    for r in range(ring):
        by_stage = forwards_and_backwards[r][[0, 1, 3, 2]].reshape(2, 2, count)
        # The k-th weight gradient of a device belongs to its k-th backward.
        order = np.argsort(by_stage[1], axis=None)
        weight_slots = np.empty(2 * count, np.int64)
        weight_slots[order] = weights[r]
        all_slots = np.concatenate([by_stage, weight_slots.reshape(1, 2, count)])
        sequences.append(_sorted(problem, all_slots, np.array([r, stages - 1 - r])))
    return _by_device(problem, sequences)


def _sorted(problem: PipelineProblem, slots: Integers, stages: Integers) -> Integers:
    """Operation numbers by slot; `slots` is stacked by kind, chunk and micro-batch."""
    count, total = problem.micro_batches, len(problem.stages)
    m = np.arange(count)
    numbers = (np.arange(3)[:, None, None] * total + stages[:, None]) * count + m
    exists = np.ones(slots.shape, np.bool_)
    exists[2] = np.array([problem.stages[s].backward_weight_ns for s in stages]) > 0
    chosen = numbers[exists]
    return chosen[np.argsort(slots[exists], kind="stable")]


def _by_device(problem: PipelineProblem, sequences: list[Integers]) -> OrderArrays:
    """From sequences by rank, the device of stage r being rank r."""
    by_device: list[Integers] = [np.empty(0, np.int64)] * len(problem.devices)
    for r, sequence in enumerate(sequences):
        by_device[problem.stages[r].device] = sequence
    return joined(by_device)
