"""The classic schedules, timed under a problem's costs.

GPipe, 1F1B and interleaved 1F1B run the whole backward as one operation, as their publications
and Megatron-LM do: a gradient is sent only after W, which is why W directly follows its B.
Device limits are ignored except by PipeOffload, which plans with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from planner.errors import Interrupted, OrderError
from planner.pipeline.classic.sequences import (
    gpipe,
    interleaved_one_forward_one_backward,
    one_forward_one_backward,
    zero_bubble_v,
)
from planner.pipeline.dispatch.list_scheduling import dispatch
from planner.pipeline.dispatch.policy import DispatchPolicy, every, nothing, unlimited
from planner.pipeline.dispatch.policy_search import depth_profile
from planner.pipeline.objective import objective_ns
from planner.pipeline.problem import PipelineProblem, Stage
from planner.pipeline.progress import StopCheck, never
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.timing import Orders, schedule_from_ops, time_orders


def gpipe_schedule(problem: PipelineProblem, should_stop: StopCheck = never) -> Schedule:
    """GPipe. Uniform stages: (m + p - 1)(F + B + W) + 2(p - 1)c."""
    return _time_fused(problem, gpipe(problem), should_stop)


def one_forward_one_backward_schedule(
    problem: PipelineProblem, should_stop: StopCheck = never
) -> Schedule:
    """1F1B. Uniform stages, small c: GPipe's length + 2c floor((m - 1)(p - 1)/p)."""
    return _time_fused(problem, one_forward_one_backward(problem), should_stop)


def interleaved_schedule(
    problem: PipelineProblem, chunks: int, should_stop: StopCheck = never
) -> Schedule:
    """Interleaved 1F1B with the shortest warm-up, from Megatron-LM's on, that can be executed.

    Uniform stages, m a multiple of p: m(F + B + W) + (p - 1)(F + B + W)/v + 2(vp - 1)c.
    """
    for extra in count():
        orders = interleaved_one_forward_one_backward(problem, chunks, extra)
        try:
            return _time_fused(problem, orders, should_stop)
        except Interrupted:
            raise
        except OrderError:
            # All forwards first always works, so a longer warm-up does in the end.
            if extra > chunks * problem.micro_batches:
                raise
    raise AssertionError


def zero_bubble_h1_schedule(problem: PipelineProblem, should_stop: StopCheck = never) -> Schedule:
    """ZB-H1 (arXiv 2401.10241): 1F1B's depth, p micro-batches in memory, W in the gaps.

    A list schedule, so that unequal stages are served too. Uniform: bubble
    (p - 1)(F + B - W + 4c).
    """
    stages = len(problem.stages)
    return _zero_bubble(problem, depth_profile(problem, 1.0, 0), stages, should_stop)


def zero_bubble_h2_schedule(problem: PipelineProblem, should_stop: StopCheck = never) -> Schedule:
    """ZB-H2 (arXiv 2401.10241): 2(p - s) - 1 forwards first, 2p - 1 micro-batches in memory."""
    stages = len(problem.stages)
    return _zero_bubble(problem, depth_profile(problem, 2.0, -1), 2 * stages - 1, should_stop)


def zero_bubble_v_schedule(problem: PipelineProblem, should_stop: StopCheck = never) -> Schedule:
    """ZB-V (arXiv 2405.15362) on a V-shaped placement, 2p chunks in memory: the better of the
    pattern for equal times and a list schedule under the same memory."""
    found = [time_orders(problem, zero_bubble_v(problem), enforce_memory=False)]
    depth = len(problem.stages)
    counted = _counting_chunks(problem, depth)
    free = unlimited(problem)
    base = DispatchPolicy(
        in_flight=free,
        held=free,
        warm_up=(0,) * depth,
        weight_delay_ns=0,
        first_backward_delay_ns=0,
        offload=nothing(problem),
    )
    found += [
        schedule_from_ops(problem, dispatch(counted, policy, should_stop))
        for policy in (base, replace(base, weight_delay_ns=None))
    ]
    return _best(problem, found)


def pipe_offload_schedule(problem: PipelineProblem, should_stop: StopCheck = never) -> Schedule:
    """PipeOffload (arXiv 2503.01328): 1F1B's depth with half or all activations offloaded.

    A uniform repeat that obeys links and memory limits, with W right after its B or in gaps; of
    the four the best is kept. Raises `OrderError` if it cannot fit.
    """
    depth = depth_profile(problem, 1.0, 0)
    schedules = []
    for taken in (1, 2):
        for weight_first in (True, False):
            policy = DispatchPolicy(
                in_flight=depth,
                held=unlimited(problem),
                warm_up=(0,) * len(depth),
                first_backward_delay_ns=0,
                weight_first=weight_first,
                offload=every(problem, taken, 2),
            )
            schedules.append(schedule_from_ops(problem, dispatch(problem, policy, should_stop)))
    return _best(problem, schedules)


def _best(problem: PipelineProblem, schedules: Iterable[Schedule]) -> Schedule:
    return min(schedules, key=lambda schedule: objective_ns(problem, schedule))


def _zero_bubble(
    problem: PipelineProblem, depth: tuple[int, ...], held: int, should_stop: StopCheck
) -> Schedule:
    """The better of two list schedules: W only in gaps that it fills, or in every gap."""
    policy = DispatchPolicy(
        in_flight=depth,
        held=(held,) * len(depth),
        warm_up=depth,
        weight_delay_ns=0,
        offload=nothing(problem),
    )
    boundless = _without_limits(problem)
    return _best(
        problem,
        [
            schedule_from_ops(problem, dispatch(boundless, choice, should_stop))
            for choice in (policy, replace(policy, weight_delay_ns=None))
        ],
    )


def _without_limits(problem: PipelineProblem) -> PipelineProblem:
    devices = tuple(replace(d, activation_memory_bytes=None) for d in problem.devices)
    return replace(problem, devices=devices)


def _counting_chunks(problem: PipelineProblem, chunks: int) -> PipelineProblem:
    """The problem with memory counted in chunks: each holds 1 from F to W, of `chunks` in all."""
    one, zero = (1,) * problem.micro_batches, (0,) * problem.micro_batches
    stages = tuple(
        replace(
            stage,
            activation_bytes=one,
            weight_grad_bytes=one,
            backward_workspace_bytes=zero,
            offload_bytes=zero,
        )
        for stage in problem.stages
    )
    devices = tuple(replace(d, activation_memory_bytes=chunks) for d in problem.devices)
    return replace(problem, stages=stages, devices=devices)


def _time_fused(problem: PipelineProblem, orders: Orders, should_stop: StopCheck) -> Schedule:
    """Time orders without W tokens on the problem with B and W in one, then take them apart."""
    if should_stop():
        raise Interrupted("stopped before it was timed")
    fused = replace(problem, stages=tuple(map(_fuse, problem.stages)))
    ops: list[TimedOp] = []
    for op in time_orders(fused, orders, enforce_memory=False).ops:
        weight_ns = problem.stages[op.stage].backward_weight_ns[op.micro_batch]
        if op.op != "B" or not weight_ns:
            ops.append(op)
            continue
        middle = op.end_ns - weight_ns
        ops.append(op._replace(end_ns=middle))
        ops.append(op._replace(op="W", start_ns=middle))
    return schedule_from_ops(problem, ops)


def _fuse(stage: Stage) -> Stage:
    both = tuple(map(sum, zip(stage.backward_input_ns, stage.backward_weight_ns, strict=True)))
    zero = (0,) * len(both)
    return replace(stage, backward_input_ns=both, backward_weight_ns=zero)
