"""The data of problems with one stage per device and equal micro-batches, as arrays per stage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planner.pipeline.compiled_simulation import NO_LIMIT, IntArray
from planner.pipeline.problem import PipelineProblem


class OneChunk(NamedTuple):
    """Times (ns) and sizes (bytes) per stage. `forward_hop` and `backward_hop` of stage s lie
    between s and s + 1; the last is 0. `limit` is `NO_LIMIT` where there is none."""

    forward: IntArray
    backward: IntArray
    weight: IntArray
    forward_hop: IntArray
    backward_hop: IntArray
    activation: IntArray
    late: IntArray
    backward_allocation: IntArray
    limit: IntArray


def is_one_chunk_alike(problem: PipelineProblem) -> bool:
    """Whether no device has two stages and all micro-batches are equal."""
    return problem.alike and all(len(stages) <= 1 for stages in problem.stages_of_device)


def one_chunk_of(problem: PipelineProblem) -> OneChunk:
    """The arrays of a problem for which `is_one_chunk_alike` holds."""
    stages = problem.stages
    limits = [problem.devices[stage.device].activation_memory_bytes for stage in stages]

    def array(values: list[int]) -> IntArray:
        return np.array(values, dtype=np.int64)

    return OneChunk(
        forward=array([stage.forward_ns[0] for stage in stages]),
        backward=array([stage.backward_input_ns[0] for stage in stages]),
        weight=array([stage.backward_weight_ns[0] for stage in stages]),
        forward_hop=array([*(t.forward_ns[0] for t in problem.transfers), 0]),
        backward_hop=array([*(t.backward_ns[0] for t in problem.transfers), 0]),
        activation=array([stage.activation_bytes[0] for stage in stages]),
        late=array([stage.late_bytes(0) for stage in stages]),
        backward_allocation=array([stage.backward_allocation_bytes(0) for stage in stages]),
        limit=array([NO_LIMIT if limit is None else limit for limit in limits]),
    )
