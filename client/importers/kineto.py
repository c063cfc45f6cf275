"""From traces of PyTorch's profiler to a measured problem.

Operations are ranges of `torch.profiler.record_function`, named

- `F 2 5`: operation, stage, micro-batch; F, B, I and W as in `torch.distributed.pipelining`,
- `PP:2F5`: what its runtime (`_PipelineScheduleRuntime`) writes by itself,
- `Forward 5`, `Backward 5`: its schedules with one stage per rank; the stage is the trace's rank.

On a GPU an operation lasts from its first kernel's start to its last kernel's end. Memory is read
from `[memory]` events, which `profile(profile_memory=True)` writes.
"""

from __future__ import annotations

import re
import statistics
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from client.errors import InputError
from client.importers.imported import Imported
from client.importers.measured_stage import OpFigures, StageFigures, problem_document

OWN_LABEL = re.compile(r"([FBIW]) (\d+) (\d+)")
RUNTIME_LABEL = re.compile(r"PP:(\d+)([FBIW])(\d+)")
SINGLE_STAGE_LABEL = re.compile(r"(Forward|Backward) (\d+)")
RANGES = "user_annotation"
GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCHES = ("cuda_runtime", "cuda_driver")
LABEL_REMEDY = (
    "Wrap each operation in torch.profiler.record_function(f'{op} {stage} {micro_batch}'), such as "
    "'F 2 5', or profile a schedule of torch.distributed.pipelining."
)
NS_PER_US = 1000
GPU_MEMORY = 1
"""`Device Type` of CUDA in the events of memory."""


@dataclass(frozen=True)
class _Label:
    op: str
    stage: int
    micro_batch: int


@dataclass
class _Seen:
    """Samples of one operation of one stage, of all micro-batches and iterations."""

    durations_ns: list[int] = field(default_factory=list)
    deltas_bytes: list[int] = field(default_factory=list)
    peaks_bytes: list[int] = field(default_factory=list)


def from_kineto(traces: Sequence[Mapping[str, Any]]) -> Imported:
    """The problem that the traces of all pipeline ranks show, one trace per rank, or one trace of
    a process that runs all stages, each of which then has a device of its own.

    Of times and deltas of memory it has the median over micro-batches and iterations. Raises
    `InputError` where there are no such ranges or stages are missing.
    """
    seen: dict[tuple[str, int], _Seen] = defaultdict(_Seen)
    device_of: dict[int, int] = {}
    micro_batches: set[int] = set()
    for number, trace in enumerate(traces):
        rank = _rank(trace, number)
        for label, sample in _samples(trace, rank):
            device_of.setdefault(label.stage, rank)
            micro_batches.add(label.micro_batch)
            known = seen[label.op, label.stage]
            known.durations_ns += sample.durations_ns
            known.deltas_bytes += sample.deltas_bytes
            known.peaks_bytes += sample.peaks_bytes
    if not seen:
        raise InputError("traceEvents", "have no operations of a pipeline.", LABEL_REMEDY)
    missing = sorted(set(range(max(device_of) + 1)) - device_of.keys())
    if missing:
        raise InputError(
            "traceEvents",
            f"show nothing of stage {missing[0]}, but of stage {max(device_of)}.",
            "Give the traces of all pipeline ranks.",
        )
    notes = _notes(seen)
    if len(traces) == 1 and len(device_of) > 1:
        device_of = {stage: stage for stage in device_of}
        notes.append("One trace has all stages: each gets a device of its own.")
    stages = [_stage(seen, s, device_of[s], notes) for s in sorted(device_of)]
    return Imported({"problem": problem_document(stages, len(micro_batches))}, notes)


def _notes(seen: Mapping[tuple[str, int], _Seen]) -> list[str]:
    notes = ["Transfers between stages take no time: add `transfers` if they do."]
    if any(sample.deltas_bytes for sample in seen.values()):
        notes.append("Memory that crosses the borders of stages counts where it is allocated.")
    else:
        notes.append(
            "The traces have no memory: record them with profile_memory=True, or add "
            "`activation_bytes`."
        )
    return notes


def _stage(
    seen: Mapping[tuple[str, int], _Seen], s: int, device: int, notes: list[str]
) -> StageFigures:
    def figures(op: str) -> OpFigures | None:
        sample = seen.get((op, s))
        if sample is None:
            return None
        return OpFigures(
            round(statistics.median(sample.durations_ns)),
            round(statistics.median(sample.deltas_bytes)) if sample.deltas_bytes else 0,
            round(statistics.median(sample.peaks_bytes)) if sample.peaks_bytes else 0,
        )

    forward, weight = figures("F"), figures("W")
    backward = (figures("I") or figures("B")) if weight else figures("B")
    if forward is None or backward is None:
        raise InputError(
            "traceEvents",
            f"show no {'forward' if forward is None else 'backward'} of stage {s}.",
            LABEL_REMEDY,
        )
    if weight is not None and ("I", s) in seen and ("B", s) in seen:
        notes.append(f"Stage {s} has split and fused backwards: only the split ones count.")
    return StageFigures(device, forward, backward, weight)


def _rank(trace: Mapping[str, Any], number: int) -> int:
    information = trace.get("distributedInfo")
    rank = information.get("rank") if isinstance(information, dict) else None
    return rank if isinstance(rank, int) else number


def _samples(trace: Mapping[str, Any], rank: int) -> Iterable[tuple[_Label, _Seen]]:
    """Each range with its duration and what memory does meanwhile."""
    events = trace.get("traceEvents")
    if not isinstance(events, list):
        raise InputError("traceEvents", "are missing.", "Give a trace of torch.profiler.")
    kernels, memory = _Kernels(events), _Memory(events)
    for event in events:
        if event.get("ph") != "X" or event.get("cat") != RANGES:
            continue
        label = _label(str(event.get("name")), rank)
        if label is None:
            continue
        begin, end = event["ts"], event["ts"] + event["dur"]
        duration_us = kernels.span_us(begin, end) if kernels.there_are_some else end - begin
        yield label, _Seen([round(duration_us * NS_PER_US)], *memory.during(begin, end))


def _label(name: str, rank: int) -> _Label | None:
    own, runtime = OWN_LABEL.fullmatch(name), RUNTIME_LABEL.fullmatch(name)
    if own:
        return _Label(own[1], int(own[2]), int(own[3]))
    if runtime:
        return _Label(runtime[2], int(runtime[1]), int(runtime[3]))
    single = SINGLE_STAGE_LABEL.fullmatch(name)
    return _Label(single[1][0], rank, int(single[2])) if single else None


class _Kernels:
    """Work of the GPU by when the host launched it. Autograd launches from a thread of its own
    while the range's thread waits, so all threads count."""

    def __init__(self, events: Iterable[Mapping[str, Any]]) -> None:
        work: dict[Any, tuple[float, float]] = {}
        launches: list[tuple[float, Any]] = []
        for event in events:
            correlation = (event.get("args") or {}).get("correlation")
            if correlation is None or event.get("ph") != "X":
                continue
            if event.get("cat") in GPU_WORK:
                work[correlation] = event["ts"], event["ts"] + event["dur"]
            elif event.get("cat") in LAUNCHES:
                launches.append((event["ts"], correlation))
        found = sorted((when, work[key]) for when, key in launches if key in work)
        self._launched = [when for when, _ in found]
        self._work = [span for _, span in found]

    @property
    def there_are_some(self) -> bool:
        """Whether the trace is of a GPU."""
        return bool(self._work)

    def span_us(self, begin: float, end: float) -> float:
        """From the first start to the last end of what was launched in between."""
        work = self._work[bisect_left(self._launched, begin) : bisect_right(self._launched, end)]
        if not work:
            return 0.0
        return max(last for _, last in work) - min(first for first, _ in work)


class _Memory:
    """Allocations and frees of a trace in order: the GPU's where it has any, else the CPU's."""

    def __init__(self, events: Iterable[Mapping[str, Any]]) -> None:
        memory = [event for event in events if event.get("name") == "[memory]"]
        on_gpu = [event for event in memory if event["args"].get("Device Type") == GPU_MEMORY]
        chosen = sorted(on_gpu or memory, key=lambda event: event["ts"])
        self._times = [event["ts"] for event in chosen]
        self._bytes = [int(event["args"].get("Bytes", 0)) for event in chosen]

    def during(self, begin: float, end: float) -> tuple[list[int], list[int]]:
        """The change from begin to end and the most in between; nothing where none is known."""
        if not self._times:
            return [], []
        changes = self._bytes[bisect_left(self._times, begin) : bisect_right(self._times, end)]
        levels = list(accumulate(changes, initial=0))
        return [levels[-1]], [max(levels)]
