"""The timeline of a schedule: everything that a chart of it needs, worked out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.pipeline.problem import PipelineProblem
from planner.pipeline.schedule import COMPUTE_KINDS, Schedule, TimedOp
from planner.pipeline.timeline.bindings import Bindings, bindings
from planner.pipeline.timeline.idle import DeviceTime, device_time
from planner.pipeline.timeline.memory_use import MemoryUse, device_memories, host_memories


@dataclass(frozen=True)
class Title:
    """What schedule it is, and what was said about it."""

    schedule: str
    placement: str | None
    fits: bool
    reason: str | None
    shortage: Mapping[str, Any] | None
    lower_bound_ns: int | None


def timeline_document(
    problem: PipelineProblem, schedule: Schedule, title: Title, *, whole_backward: bool = False
) -> dict[str, Any]:
    """The timeline as the API answers with it. The schedule need not keep the limits of memory.
    With `whole_backward` it sends a gradient only when W is done."""
    ops = schedule.ops
    from_ns = min((op.start_ns for op in ops), default=0)
    until_ns = from_ns + schedule.makespan_ns
    memories = device_memories(problem, ops, from_ns)
    hosts = host_memories(problem, ops, from_ns)
    by_key = {("device", d): use for d, use in enumerate(memories)}
    by_key |= {("host", h): use for h, use in enumerate(hosts)}
    bound = bindings(
        problem, ops, schedule.waits or (), by_key, from_ns, whole_backward=whole_backward
    )
    times = _device_times(problem, ops, bound, from_ns, until_ns)
    return {
        "schedule": title.schedule,
        "placement": title.placement,
        "fits": title.fits,
        "reason": title.reason,
        "shortage": title.shortage,
        "objective": problem.objective.value,
        "makespan_ns": schedule.makespan_ns,
        "steady_span_ns": schedule.steady_span_ns,
        "lower_bound_ns": title.lower_bound_ns,
        "micro_batches": problem.micro_batches,
        "stages": [{"device": stage.device} for stage in problem.stages],
        "ops": _columns(ops, bound),
        "critical_path": critical_path(problem, ops, bound.after),
        "devices": [
            _device(problem, d, use, time)
            for d, (use, time) in enumerate(zip(memories, times, strict=True))
        ],
        "hosts": [{"host": h, **_memory(use)} for h, use in enumerate(hosts)],
        "links": links(problem, ops),
    }


def critical_path(
    problem: PipelineProblem, ops: Sequence[TimedOp], after: Sequence[int | None]
) -> list[int]:
    """From the operation that ends last, its device's epilogue included, back through what let
    each start; in the order of time."""
    compute = [i for i, op in enumerate(ops) if op.op in COMPUTE_KINDS]
    if not compute:
        return []
    epilogues = [problem.devices[stage.device].epilogue_ns for stage in problem.stages]
    step: int | None = max(compute, key=lambda i: ops[i].end_ns + epilogues[ops[i].stage])
    path: dict[int, None] = {}
    # Operations of no length can let each other start within one instant.
    while step is not None and step not in path:
        path[step] = None
        step = after[step]
    return list(reversed(path))


def links(problem: PipelineProblem, ops: Sequence[TimedOp]) -> list[dict[str, Any]]:
    """The host links over which something can be offloaded, and how long each is in use."""
    devices: dict[str, set[int]] = defaultdict(set)
    for s, stage in enumerate(problem.stages):
        if any(stage.offload_bytes):
            devices[problem.link_of_stage[s]].add(stage.device)
    busy_ns: dict[tuple[str, str], int] = defaultdict(int)
    for op, s, _, start_ns, end_ns in ops:
        if op in "OR":
            busy_ns[problem.link_of_stage[s], op] += end_ns - start_ns
    return [
        {
            "link": problem.devices[min(own)].host_link or link,
            "devices": sorted(own),
            "offload_busy_ns": busy_ns[link, "O"],
            "reload_busy_ns": busy_ns[link, "R"],
        }
        for link, own in devices.items()
    ]


def _device_times(
    problem: PipelineProblem,
    ops: Sequence[TimedOp],
    bound: Bindings,
    from_ns: int,
    until_ns: int,
) -> list[DeviceTime]:
    own: list[list[int]] = [[] for _ in problem.devices]
    for i, op in enumerate(ops):
        if op.op in COMPUTE_KINDS:
            own[problem.stages[op.stage].device].append(i)
    return [
        device_time(ops, numbers, bound.waits_for, device.epilogue_ns, from_ns, until_ns)
        for numbers, device in zip(own, problem.devices, strict=True)
    ]


def _columns(ops: Sequence[TimedOp], bound: Bindings) -> Mapping[str, Sequence[Any]]:
    return {
        "op": [op.op for op in ops],
        "stage": [op.stage for op in ops],
        "micro_batch": [op.micro_batch for op in ops],
        "start_ns": [op.start_ns for op in ops],
        "end_ns": [op.end_ns for op in ops],
        "after": list(bound.after),
        "waits_for": list(bound.waits_for),
    }


def _device(problem: PipelineProblem, d: int, use: MemoryUse, time: DeviceTime) -> dict[str, Any]:
    device = problem.devices[d]
    return {
        "device": d,
        "host_link": device.host_link,
        "host": device.host,
        **_memory(use),
        "busy_ns": time.busy_ns,
        "epilogue_ns": device.epilogue_ns if problem.stages_of_device[d] else 0,
        "idle_ns": time.idle_ns(),
        "idle": [gap.to_document() for gap in time.gaps],
    }


def _memory(use: MemoryUse) -> dict[str, Any]:
    return {
        "limit_bytes": use.limit_bytes,
        "peak_bytes": use.peak_bytes,
        "memory": use.to_document(),
    }
