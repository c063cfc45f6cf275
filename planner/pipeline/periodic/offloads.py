"""Reloads for sequences that hold more than their devices have memory for."""

from __future__ import annotations

import numpy as np

from planner.pipeline.compiled_simulation import IntArray, problem_arrays
from planner.pipeline.periodic.sequences import B, F, R, Sequences, time_sequences
from planner.pipeline.problem import PipelineProblem

SHARES = (0.0, 0.125, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 0.875, 1.0)


def with_offloads(problem: PipelineProblem, sequences: Sequences, slack: float) -> Sequences | None:
    """The sequences with reloads, for one stage per device and equal micro-batches.

    A stage offloads the smallest of `SHARES` of its micro-batches with which its memory does, as
    timed without regard to memory; each reload comes before its B by its length and `slack` times
    as much again. None where even with all of them memory does not do.
    """
    timing = time_sequences(problem, sequences, enforce_memory=False)
    assert timing is not None
    plain = [sequences.of_device(d) for d in range(len(problem.devices))]
    level = [0] * len(problem.stages)
    while True:
        over = _stages_out_of_memory(problem, timing.start_ns)
        if not over:
            return sequences
        for s in over:
            level[s] += 1
            if not problem.stages[s].offload_bytes[0] or level[s] == len(SHARES):
                return None
        starts = timing.start_ns.reshape(5, len(problem.stages), problem.micro_batches)
        devices = list(plain)
        for s, stage in enumerate(problem.stages):
            if level[s]:
                chosen = _spread(problem.micro_batches, SHARES[level[s]])
                lead = int(stage.reload_ns[0] * (1 + slack))
                rows = plain[stage.device]
                devices[stage.device] = _insert_reloads(rows, s, starts[:, s], chosen, lead)
        sequences = Sequences.join(devices)
        timing = time_sequences(problem, sequences, enforce_memory=False)
        if timing is None:
            return None


def _spread(count: int, share: float) -> IntArray:
    """Evenly spread micro-batches, this share of all."""
    marks = np.floor(np.arange(count + 1) * share + 1e-9)
    return np.flatnonzero(np.diff(marks) > 0).astype(np.int64)


def _stages_out_of_memory(problem: PipelineProblem, start_ns: IntArray) -> list[int]:
    """Stages that hold more than their device's limit at these starts (by operation number)."""
    arrays = problem_arrays(problem)
    shape = 5, len(problem.stages), problem.micro_batches
    begin = start_ns.reshape(shape)
    end = (start_ns + arrays.duration).reshape(shape)
    allocation, release = arrays.allocation.reshape(shape), arrays.release.reshape(shape)
    over = []
    for s, stage in enumerate(problem.stages):
        limit = problem.devices[stage.device].activation_memory_bytes
        ran = begin[:, s] >= 0
        when = np.concatenate([begin[:, s][ran], end[:, s][ran]])
        delta = np.concatenate([allocation[:, s][ran], -release[:, s][ran]])
        # At one instant frees come first.
        order = np.lexsort((delta, when))
        if limit is not None and int(np.cumsum(delta[order]).max()) > limit:
            over.append(s)
    return over


def _insert_reloads(
    rows: IntArray, s: int, starts: IntArray, chosen: IntArray, lead: int
) -> IntArray:
    """The device's rows with an R for each chosen micro-batch before what starts after its time,
    but after its F and in the order of micro-batches."""
    when = starts[rows[:, 0], rows[:, 2]]
    place_of_f = np.empty(starts.shape[1], dtype=np.int64)
    place_of_b = np.empty(starts.shape[1], dtype=np.int64)
    for kind, place in ((F, place_of_f), (B, place_of_b)):
        own = np.flatnonzero(rows[:, 0] == kind)
        place[rows[own, 2]] = own
    wanted = np.searchsorted(when, starts[B, chosen] - lead)
    wanted = np.minimum(np.maximum(wanted, place_of_f[chosen] + 1), place_of_b[chosen])
    reloads = np.stack([np.full(len(chosen), R), np.full(len(chosen), s), chosen], axis=1)
    result: IntArray = np.insert(rows, wanted, reloads, axis=0)
    return result
