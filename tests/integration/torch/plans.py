"""Answers of the planner for the small model, and their exported files. Needs no PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from planner.pipeline.classic.schedules import pipe_offload_around, zero_bubble_v_schedule
from planner.pipeline.classic.timed import TimedClassic
from planner.pipeline.documents import problem_to_document, read_problem
from planner.pipeline.problem import Host, PipelineProblem
from planner.pipeline.request import resolve_request
from planner.pipeline.robust.any_durations import verify_any_durations
from planner.pipeline.robust.waits import with_waits
from planner.pipeline.schedule import Schedule, TimedOp
from planner.pipeline.solve import run
from planner.pipeline.timing import schedule_from_ops
from planner.pipeline.verify import verify
from planner.progress import SilentReporter

MICRO_BATCHES = 8
V_SHAPE, LOOP = (0, 1, 2, 3, 3, 2, 1, 0), (0, 1, 2, 3, 0, 1, 2, 3)
STAGE = {
    "forward_ns": 1000,
    "backward_input_ns": 1000,
    "backward_weight_ns": 800,
    "activation_bytes": 36,
    "weight_grad_bytes": 20,
}
FUSED = {"backward_weight_ns": 0, "weight_grad_bytes": 0}
Answer = dict[str, Any]


def problem_of(
    devices: tuple[int, ...], micro_batches: int = MICRO_BATCHES, **quantities: Any
) -> PipelineProblem:
    """One stage per entry, on the device that it names, all with the same times and bytes."""
    return read_problem(
        {
            "micro_batches": micro_batches,
            "devices": [{} for _ in range(max(devices) + 1)],
            "stages": [{"device": device, **STAGE, **quantities} for device in devices],
        }
    )


def answer_of(problem: PipelineProblem, schedule: Schedule) -> Answer:
    """What the service answers with, as far as exports read it."""
    assert verify(problem, schedule) == []
    return {"problem": problem_to_document(problem), "schedule": schedule.to_document(None)}


def classic(problem: PipelineProblem, make: Callable[..., TimedClassic], *options: int) -> Answer:
    """A classic schedule."""
    return answer_of(problem, make(problem, *options).schedule)


def ours(problem: PipelineProblem, time_limit_s: float = 2) -> Answer:
    """What the planner finds."""
    body = {"problem": problem_to_document(problem), "solver": {"time_limit_s": time_limit_s}}
    found = run(resolve_request(body).spec, SilentReporter(), lambda: False)["document"]
    ops = (TimedOp(**op) for op in found["schedule"]["ops"])
    return answer_of(problem, with_waits(problem, schedule_from_ops(problem, ops)))


def ours_with_offloads(problem: PipelineProblem) -> Answer:
    """The same with room for half of what ZB-V takes."""
    free = zero_bubble_v_schedule(problem).schedule
    limits = [peak // 2 for peak in free.peak_memory_bytes]
    return ours(limited(problem, limits))


def limited(problem: PipelineProblem, limits: Iterable[int]) -> PipelineProblem:
    """With so much room for activations on each device."""
    devices = (
        replace(device, activation_memory_bytes=limit)
        for device, limit in zip(problem.devices, limits, strict=True)
    )
    return replace(problem, devices=tuple(devices))


def sharing_a_host(problem: PipelineProblem) -> PipelineProblem:
    """With one link to one host for all devices."""
    devices = tuple(replace(device, host_link="switch", host=0) for device in problem.devices)
    return replace(problem, devices=devices, hosts=(Host(),))


def offloading(
    problem: PipelineProblem, make: Callable[..., TimedClassic], *options: int
) -> Answer:
    """A classic schedule with half of the micro-batches offloaded, and the waits that keep it
    within its own peaks."""
    schedule = next(pipe_offload_around(problem, make(problem, *options))).schedule
    hosts = tuple(map(Host, schedule.host_peak_memory_bytes))
    within = replace(limited(problem, schedule.peak_memory_bytes), hosts=hosts)
    waiting = with_waits(within, schedule)
    assert verify_any_durations(within, waiting) == []
    return answer_of(within, waiting)
