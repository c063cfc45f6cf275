"""A pipeline schedule in the Trace Event Format, which Perfetto and chrome://tracing open.

Each device is a process with a thread for computing and, where it offloads, one for each direction
of its link to the host; the memory that its activations take is a counter beside them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from planner.export.format import Document, Format, Source
from planner.export.schedule_csv import schedule_of_best, with_schedule
from planner.pipeline.documents import read_problem
from planner.pipeline.memory import device_memory_events, memory_timeline
from planner.pipeline.schedule import TimedOp

Event = dict[str, Any]
COMPUTE, OFFLOAD, RELOAD = "compute", "offload", "reload"
THREADS = (COMPUTE, OFFLOAD, RELOAD)
THREAD_OF = {"F": COMPUTE, "B": COMPUTE, "W": COMPUTE, "O": OFFLOAD, "R": RELOAD}
WORDS = {
    "F": "forward",
    "B": "backward for the input",
    "W": "backward for the weights",
    "O": "offload",
    "R": "reload",
}
MEMORY = "activation memory"
NS_PER_US = 1000


def write(answer: Document, _: Source) -> str:
    """The trace. Its times are microseconds, with three decimals as the nanoseconds have."""
    problem = read_problem(answer["problem"])
    ops = [TimedOp(**op) for op in answer["schedule"]["ops"]]
    device_of = [stage.device for stage in problem.stages]
    events: list[Event] = [*_names(len(problem.devices), ops, device_of)]
    events += (_operation(op, device_of[op.stage]) for op in ops)
    for device, changes in enumerate(device_memory_events(problem, ops)):
        events += (_memory(device, at_ns, used) for at_ns, used in memory_timeline(changes))
    trace = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"makespan_ns": answer["schedule"]["makespan_ns"]},
    }
    return json.dumps(trace, separators=(",", ":"))


def _names(devices: int, ops: list[TimedOp], device_of: list[int]) -> Iterator[Event]:
    used = {(device_of[op.stage], THREAD_OF[op.op]) for op in ops}
    for device in range(devices):
        yield _metadata(device, 0, "process_name", {"name": f"device {device}"})
        yield _metadata(device, 0, "process_sort_index", {"sort_index": device})
        for number, thread in enumerate(THREADS):
            if (device, thread) in used:
                yield _metadata(device, number, "thread_name", {"name": thread})
                yield _metadata(device, number, "thread_sort_index", {"sort_index": number})


def _metadata(device: int, thread: int, name: str, values: dict[str, Any]) -> Event:
    return {"ph": "M", "pid": device, "tid": thread, "name": name, "args": values}


def _operation(op: TimedOp, device: int) -> Event:
    return {
        "ph": "X",
        "pid": device,
        "tid": THREADS.index(THREAD_OF[op.op]),
        "ts": op.start_ns / NS_PER_US,
        "dur": (op.end_ns - op.start_ns) / NS_PER_US,
        "name": f"{op.op}{op.micro_batch}",
        "cat": WORDS[op.op],
        "args": {"stage": op.stage, "micro_batch": op.micro_batch},
    }


def _memory(device: int, at_ns: int, used: int) -> Event:
    # Of no thread: a counter is of its process.
    at_us = at_ns / NS_PER_US
    return {"ph": "C", "pid": device, "ts": at_us, "name": MEMORY, "args": {"bytes": used}}


CHROME_TRACE = Format(
    name="chrome-trace",
    title="Trace for Perfetto and chrome://tracing (JSON)",
    media_type="application/json",
    extension="trace.json",
    carries="Every operation on its device or link, and the memory of activations over time.",
    leaves_out="Transfers between stages, and what ranks have to wait for.",
    written_for="Trace Event Format",
    part=with_schedule,
    write=write,
)
BEST_CHROME_TRACE = replace(
    CHROME_TRACE,
    title="Trace of the best plan's schedule for Perfetto and chrome://tracing (JSON)",
    part=schedule_of_best,
)
