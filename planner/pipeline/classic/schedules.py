"""The classic schedules, timed under a problem's costs.

GPipe, 1F1B and interleaved 1F1B run the whole backward as one operation, as their publications
and Megatron-LM do: a gradient is sent only after W, which is why W directly follows its B.
Device limits are ignored except by the uniform repeat, which plans with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import numpy as np

from planner.errors import OrderError
from planner.pipeline.classic.blocks import grouped_interleaved, least_group, v_half, v_min
from planner.pipeline.classic.list_schedule import FAR, ListPolicy, list_schedule
from planner.pipeline.classic.offload import with_offloads
from planner.pipeline.classic.sequences import (
    gpipe,
    interleaved_one_forward_one_backward,
    one_forward_one_backward,
    zero_bubble_h1,
    zero_bubble_v,
)
from planner.pipeline.classic.timed import TimedClassic, from_schedule, timed, timed_fused
from planner.pipeline.dispatch.list_scheduling import dispatch
from planner.pipeline.dispatch.policy import DispatchPolicy, every, unlimited
from planner.pipeline.dispatch.policy_search import depth_profile
from planner.pipeline.kernel.tables import (
    ALLOCATED,
    BACKWARD,
    DURATION,
    FORWARD,
    FREED,
    LIMIT,
    WEIGHT,
    Flags,
    Tables,
    tables_of,
    without_limits,
)
from planner.pipeline.problem import PipelineProblem
from planner.pipeline.timing import schedule_from_ops
from planner.progress import StopCheck, never

DISPATCHED_OPERATIONS = 30_000
"""How many operations the dispatcher may place for the uniform repeats of one problem; a policy
that would go beyond is left out."""


def gpipe_schedule(problem: PipelineProblem) -> TimedClassic:
    """GPipe. Uniform stages: (m + p - 1)(F + B + W) + 2(p - 1)c."""
    return timed_fused(problem, gpipe(problem))


def one_forward_one_backward_schedule(problem: PipelineProblem) -> TimedClassic:
    """1F1B. Uniform stages, small c: GPipe's length + 2c floor((m - 1)(p - 1)/p)."""
    return timed_fused(problem, one_forward_one_backward(problem))


def interleaved_schedule(problem: PipelineProblem, chunks: int) -> TimedClassic:
    """Interleaved 1F1B with the shortest warm-up, from Megatron-LM's on, that can be executed.

    Uniform stages, m a multiple of p: m(F + B + W) + (p - 1)(F + B + W)/v + 2(vp - 1)c.
    """
    for extra in count():
        orders = interleaved_one_forward_one_backward(problem, chunks, extra)
        try:
            return timed_fused(problem, orders)
        except OrderError:
            # All forwards first always works, so a longer warm-up does in the end.
            if extra > chunks * problem.micro_batches:
                raise
    raise AssertionError


def zero_bubble_h1_schedule(problem: PipelineProblem) -> TimedClassic:
    """ZB-H1 (arXiv 2401.10241): 1F1B's depth, p micro-batches in memory, W in the gaps.

    The better of the pattern for equal times, which has one stage per device, and of list
    schedules, which serve unequal stages. Uniform, W at most F and B: bubble
    (p - 1)(F + B - W + 4c).
    """
    listed = _zero_bubble(problem, depth_profile(problem, 1.0, 0), len(problem.stages))
    if len({stage.device for stage in problem.stages}) < len(problem.stages):
        return listed
    return _best([timed(problem, zero_bubble_h1(problem)), listed])


def zero_bubble_h2_schedule(problem: PipelineProblem) -> TimedClassic:
    """ZB-H2 (arXiv 2401.10241): 2(p - s) - 1 forwards first, 2p - 1 micro-batches in memory."""
    return _zero_bubble(problem, depth_profile(problem, 2.0, -1), 2 * len(problem.stages) - 1)


def zero_bubble_v_schedule(problem: PipelineProblem) -> TimedClassic:
    """ZB-V (arXiv 2405.15362) on a V-shaped placement, 2p chunks in memory: the better of the
    pattern for equal times and a list schedule under the same memory."""
    tables = tables_of(problem)
    depth = len(problem.stages)
    free = unlimited(problem)
    base = ListPolicy(free, free, (0,) * depth, first_backward_delay_ns=0, weight_delay_ns=0)
    return _best(
        [
            timed(problem, zero_bubble_v(problem), tables),
            *_listed(problem, tables, _counting_chunks(tables, depth), base),
        ]
    )


def v_half_schedule(problem: PipelineProblem) -> TimedClassic:
    """V-Half (arXiv 2405.15362) on a V-shaped placement: at most floor((p + 2)/2) of 1F1B's p
    micro-batches in memory, half of its bubble for equal times."""
    return timed(problem, v_half(problem))


def v_min_schedule(problem: PipelineProblem) -> TimedClassic:
    """V-Min (arXiv 2405.15362) on a V-shaped placement: at most floor((p + 4)/3) of 1F1B's p
    micro-batches in memory, two thirds of its bubble for equal times."""
    return timed(problem, v_min(problem))


def grouped_interleaved_schedule(
    problem: PipelineProblem, chunks: int, group: int | None = None
) -> TimedClassic:
    """GIS (arXiv 2503.01328), groups of p micro-batches, or GIS-H with smaller ones.

    Uniform stages: bubble (p - 1)(f + b), f and b per chunk, and pv chunks in memory for groups
    of p; g(v - 1) + p chunks for groups of g.
    """
    least = least_group(problem, chunks)
    group = len(problem.stages) // chunks if group is None else group
    return timed(problem, grouped_interleaved(problem, chunks, group, least))


def uniform_interleaved_schedule(
    problem: PipelineProblem, chunks: int, offloaded: int
) -> TimedClassic:
    """PO-H and PO-F (arXiv 2503.01328): the uniform repeat with the first chunks offloaded.

    The first chunks live longest: half of them are PO-H, all are PO-F.
    """
    return with_offloads(
        grouped_interleaved_schedule(problem, chunks, 1), first_chunks(problem, chunks, offloaded)
    )


def group_sizes(problem: PipelineProblem, chunks: int) -> list[int]:
    """Groups for GIS-H and GIS: the least, one between and p, ascending."""
    ring = len(problem.stages) // chunks
    least = least_group(problem, chunks)
    return sorted({least, (least + ring) // 2, ring})


def pipe_offload_interleaved(problem: PipelineProblem, chunks: int) -> Iterator[TimedClassic]:
    """The PipeOffload family (arXiv 2503.01328) on an interleaved placement: each group size and
    the uniform repeat, each with one chunk offloaded, with two, and so on."""
    for group in (*reversed(group_sizes(problem, chunks)), 1):
        base = grouped_interleaved_schedule(problem, chunks, group)
        for offloaded in range(1, chunks + 1):
            yield with_offloads(base, first_chunks(problem, chunks, offloaded))


def pipe_offload_around(problem: PipelineProblem, base: TimedClassic) -> Iterator[TimedClassic]:
    """A schedule's computation with half of the micro-batches offloaded, then with all."""
    for taken in (1, 2):
        yield with_offloads(base, np.array(every(problem, taken, 2)))


def pipe_offload_dispatched(
    problem: PipelineProblem, should_stop: StopCheck = never
) -> Iterator[TimedClassic]:
    """1F1B's depth with half or all activations offloaded, under links and memory limits.

    A uniform repeat with W right after its B or in gaps, as far as `DISPATCHED_OPERATIONS` go.
    Raises `OrderError` if it cannot fit.
    """
    depth = depth_profile(problem, 1.0, 0)
    left = DISPATCHED_OPERATIONS
    for taken in (1, 2):
        selection = every(problem, taken, 2)
        left_for_each = problem.operations + 2 * sum(map(sum, selection))
        for weight_first in (True, False):
            left -= left_for_each
            if left < 0:
                return
            policy = DispatchPolicy(
                in_flight=depth,
                held=unlimited(problem),
                warm_up=(0,) * len(depth),
                first_backward_delay_ns=0,
                weight_first=weight_first,
                offload=selection,
            )
            schedule = schedule_from_ops(problem, dispatch(problem, policy, should_stop))
            yield from_schedule(problem, schedule)


def first_chunks(problem: PipelineProblem, chunks: int, offloaded: int) -> Flags:
    """The stages of the first chunks of an interleaved placement, for every micro-batch."""
    ring = len(problem.stages) // chunks
    first = np.arange(len(problem.stages)) < offloaded * ring
    return np.repeat(first[:, None], problem.micro_batches, axis=1)


def _best(candidates: list[TimedClassic]) -> TimedClassic:
    return min(candidates, key=lambda candidate: candidate.objective_ns)


def _zero_bubble(problem: PipelineProblem, depth: tuple[int, ...], held: int) -> TimedClassic:
    """The better of two list schedules: W only in gaps that it fills, or in every gap."""
    tables = tables_of(problem)
    policy = ListPolicy(depth, (held,) * len(depth), depth, weight_delay_ns=0)
    return _best(list(_listed(problem, tables, without_limits(tables), policy)))


def _listed(
    problem: PipelineProblem, tables: Tables, counted: Tables, policy: ListPolicy
) -> Iterator[TimedClassic]:
    """The policy's list schedules with W only in gaps that it fills, and with W in every gap.

    `counted` has the memory and the limits to plan with.
    """
    for choice in (policy, replace(policy, weight_delay_ns=FAR)):
        yield timed(problem, list_schedule(counted, choice), tables)


def _counting_chunks(tables: Tables, chunks: int) -> Tables:
    """Memory counted in chunks: each holds 1 from F to W (to B if fused), of `chunks` in all."""
    ops, devices = tables.ops.copy(), tables.devices.copy()
    by_kind = ops.reshape(5, tables.stages * tables.micro_batches, -1)
    has_weight = by_kind[WEIGHT, :, DURATION] > 0
    by_kind[:, :, [ALLOCATED, FREED]] = 0
    by_kind[FORWARD, :, ALLOCATED] = 1
    by_kind[BACKWARD, :, FREED] = ~has_weight
    by_kind[WEIGHT, :, FREED] = has_weight
    devices[:, LIMIT] = chunks
    return tables._replace(ops=ops, devices=devices)
