"""The data of problems with one stage per device and equal micro-batches, as arrays per stage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.pipeline.kernel.tables import (
    ALLOCATED,
    ASSIGNED_HOST,
    BACKWARD,
    CHANNEL,
    DURATION,
    FORWARD,
    FREED,
    LAG,
    LIMIT,
    OFFLOAD,
    RELOAD,
    WEIGHT,
    Integers,
    compute_durations,
    device_of_stage,
    grid,
    tables_of,
)
from planner.pipeline.periodic.shorten import with_micro_batches
from planner.pipeline.problem import PipelineProblem


class OneChunk(NamedTuple):
    """Times (ns) and sizes (bytes) per stage. `forward_hop` and `backward_hop` of stage s lie
    between s and s + 1; the last is 0. `limit` is `UNLIMITED` where there is none. The bytes
    `offload` are 0 where a stage cannot; of the exclusive channels of host links each has a
    number, and `host` is -1 where offloads are into no host of `host_limit`."""

    forward: Integers
    backward: Integers
    weight: Integers
    forward_hop: Integers
    backward_hop: Integers
    activation: Integers
    late: Integers
    backward_allocation: Integers
    limit: Integers
    offload: Integers
    offload_ns: Integers
    reload_ns: Integers
    offload_channel: Integers
    reload_channel: Integers
    channels: int
    host: Integers
    host_limit: Integers


def is_one_chunk_alike(problem: PipelineProblem) -> bool:
    """Whether no device has two stages and all micro-batches are equal."""
    return problem.alike and all(len(stages) <= 1 for stages in problem.stages_of_device)


def one_chunk_of(problem: PipelineProblem) -> OneChunk:
    """The arrays of a problem for which `is_one_chunk_alike` holds."""
    tables = tables_of(with_micro_batches(problem, 1))
    forward, backward, weight = compute_durations(tables)[..., 0]

    def column(kind: int, name: int) -> Integers:
        return grid(tables, kind, name)[:, 0]

    return OneChunk(
        forward=forward,
        backward=backward,
        weight=weight,
        forward_hop=np.append(column(FORWARD, LAG)[1:], 0),
        backward_hop=column(BACKWARD, LAG),
        activation=column(FORWARD, ALLOCATED),
        late=column(WEIGHT, FREED),
        backward_allocation=column(BACKWARD, ALLOCATED),
        limit=tables.devices[device_of_stage(tables), LIMIT],
        offload=column(OFFLOAD, FREED),
        offload_ns=column(OFFLOAD, DURATION),
        reload_ns=column(RELOAD, DURATION),
        offload_channel=column(OFFLOAD, CHANNEL),
        reload_channel=column(RELOAD, CHANNEL),
        channels=tables.channels,
        host=tables.devices[device_of_stage(tables), ASSIGNED_HOST],
        host_limit=tables.host_limit,
    )
