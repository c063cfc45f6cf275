"""Reloads for sequences that hold more than their devices have memory for."""

from __future__ import annotations

import numpy as np

from planner.pipeline.kernel.figures import device_peaks_bytes, shaped
from planner.pipeline.kernel.tables import (
    BACKWARD,
    FORWARD,
    LIMIT,
    RELOAD,
    Integers,
    Tables,
    device_of_stage,
    tables_of,
    without_limits,
)
from planner.pipeline.periodic.sequences import Sequences, time_sequences
from planner.pipeline.problem import PipelineProblem

SHARES = (0.0, 0.125, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 0.875, 1.0)


def with_offloads(problem: PipelineProblem, sequences: Sequences, slack: float) -> Sequences | None:
    """The sequences with reloads, for one stage per device and equal micro-batches.

    A stage offloads the smallest of `SHARES` of its micro-batches with which its memory does, as
    timed without regard to memory; each reload comes before its B by its length and `slack` times
    as much again. None where even with all of them memory does not do.
    """
    tables = tables_of(problem)
    roomy = without_limits(tables)
    timing = time_sequences(roomy, sequences)
    assert timing is not None
    plain = [sequences.of_device(d) for d in range(len(problem.devices))]
    level = [0] * len(problem.stages)
    while True:
        over = _stages_out_of_memory(tables, timing.start_ns)
        if not over:
            return sequences
        for s in over:
            level[s] += 1
            if not problem.stages[s].offload_bytes[0] or level[s] == len(SHARES):
                return None
        starts = shaped(tables, timing.start_ns)
        devices = list(plain)
        for s, stage in enumerate(problem.stages):
            if level[s]:
                chosen = _spread(problem.micro_batches, SHARES[level[s]])
                lead = int(stage.reload_ns[0] * (1 + slack))
                rows = plain[stage.device]
                devices[stage.device] = _insert_reloads(rows, s, starts[:, s], chosen, lead)
        sequences = Sequences.join(devices)
        timing = time_sequences(roomy, sequences)
        if timing is None:
            return None


def _spread(count: int, share: float) -> Integers:
    """Evenly spread micro-batches, this share of all."""
    marks = np.floor(np.arange(count + 1) * share + 1e-9)
    return np.flatnonzero(np.diff(marks) > 0).astype(np.int64)


def _stages_out_of_memory(tables: Tables, start_ns: Integers) -> list[int]:
    """Stages that hold more than their device's limit at these starts (by operation number)."""
    over = np.array(device_peaks_bytes(tables, start_ns)) > tables.devices[:, LIMIT]
    return np.flatnonzero(over[device_of_stage(tables)]).tolist()


def _insert_reloads(
    rows: Integers, s: int, starts: Integers, chosen: Integers, lead: int
) -> Integers:
    """The device's rows with an R for each chosen micro-batch before what starts after its time,
    but after its F and in the order of micro-batches."""
    when = starts[rows[:, 0], rows[:, 2]]
    place_of_f = np.empty(starts.shape[1], dtype=np.int64)
    place_of_b = np.empty(starts.shape[1], dtype=np.int64)
    for kind, place in ((FORWARD, place_of_f), (BACKWARD, place_of_b)):
        own = np.flatnonzero(rows[:, 0] == kind)
        place[rows[own, 2]] = own
    wanted = np.searchsorted(when, starts[BACKWARD, chosen] - lead)
    wanted = np.minimum(np.maximum(wanted, place_of_f[chosen] + 1), place_of_b[chosen])
    reloads = np.stack([np.full(len(chosen), RELOAD), np.full(len(chosen), s), chosen], axis=1)
    result: Integers = np.insert(rows, wanted, reloads, axis=0)
    return result
