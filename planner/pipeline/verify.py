"""Independent verification of a schedule against its problem: every rule of the data format.

Written against the rules, not against the code that makes schedules: it shares with that code
only the description of the problem and the memory events of an operation. Of long schedules
`verify_arrays` says whether all is well; what is not is found here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

from planner.pipeline.memory import device_memory_events, host_memory_events, memory_timeline
from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import OpKind, Schedule, TimedOp
from planner.progress import StopCheck, never, watched

VERIFIER = "loadmaster schedule verifier 1"

ARRAYS_FROM_OPERATIONS = 5_000
"""From so many on, whether all is well is found out by arrays in a tenth of the time."""

Key = tuple[str, int, int]
"""A `Token` as a plain tuple, equal to it: to make very many of those takes half of the time."""


BY_TIME = itemgetter(3, 4)
"""By start and end."""


@dataclass(frozen=True)
class Violation:
    """A broken rule: its short name, and a sentence with the operations and numbers."""

    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


def verify(
    problem: PipelineProblem, schedule: Schedule, should_stop: StopCheck = never
) -> list[Violation]:
    """Every rule that the schedule breaks, in reading order; empty if it is valid.

    If operations are missing, doubled or of the wrong length, only that is reported, since the
    other rules need complete operations. Raises `Interrupted` if told to stop.
    """
    if len(schedule.ops) >= ARRAYS_FROM_OPERATIONS:
        # Only here, so that who verifies nothing long loads no arrays.
        from planner.pipeline.verify_arrays import is_valid

        if is_valid(problem, schedule, should_stop):
            return []
    violations = list(operation_violations(problem, schedule.ops, should_stop))
    if violations:
        return violations
    at: dict[Key, TimedOp] = {op[:3]: op for op in watched(schedule.ops, should_stop)}
    return [
        *_dependency_violations(problem, at, should_stop),
        *_exclusivity_violations(problem, schedule.ops, should_stop),
        *_memory_violations(problem, schedule, should_stop),
        *_figure_violations(problem, schedule, should_stop),
    ]


def name_of(token: Key) -> str:
    """The operation in words."""
    op, stage, micro_batch = token
    return f"{op} of stage {stage}, micro-batch {micro_batch}"


def _durations(problem: PipelineProblem) -> dict[str, list[tuple[int, ...]]]:
    """Lengths (ns) by kind, stage and micro-batch."""
    return {
        "F": [stage.forward_ns for stage in problem.stages],
        "B": [stage.backward_input_ns for stage in problem.stages],
        "W": [stage.backward_weight_ns for stage in problem.stages],
        "O": [stage.offload_ns for stage in problem.stages],
        "R": [stage.reload_ns for stage in problem.stages],
    }


def operation_violations(
    problem: PipelineProblem, ops: tuple[TimedOp, ...], should_stop: StopCheck = never
) -> Iterator[Violation]:
    """Rule 1: each operation once, of exactly its length, from 0 on."""
    seen: set[Key] = set()
    durations = _durations(problem)
    for op in watched(ops, should_stop):
        kind, s, m, start_ns, end_ns = op
        token = (kind, s, m)
        known = (
            kind in durations and 0 <= s < len(problem.stages) and 0 <= m < problem.micro_batches
        )
        if not known:
            yield Violation("unknown operation", f"{name_of(token)} is not part of this problem")
            continue
        if token in seen:
            yield Violation("operation twice", f"{name_of(token)} appears more than once")
        seen.add(token)
        length = durations[kind][s][m]
        if end_ns - start_ns != length:
            yield Violation(
                "wrong length", f"{name_of(token)} lasts {end_ns - start_ns} ns, not {length}"
            )
        if start_ns < 0:
            yield Violation("starts before 0", f"{name_of(token)} starts at {start_ns} ns")
    for s, stage in watched(enumerate(problem.stages), should_stop, 1):
        for m in range(problem.micro_batches):
            needed: tuple[OpKind, ...] = ("F", "B", "W") if stage.has_weight_op(m) else ("F", "B")
            for kind in needed:
                if (kind, s, m) not in seen:
                    yield Violation("operation missing", f"{name_of((kind, s, m))} never runs")
            offload, reload = ("O", s, m), ("R", s, m)
            if (offload in seen) != (reload in seen):
                missing = reload if offload in seen else offload
                yield Violation("half an offload", f"{name_of(missing)} is missing")
            if offload in seen and not stage.offload_bytes[m]:
                yield Violation("nothing to offload", f"{name_of(offload)} has no bytes to move")


def _dependency_violations(
    problem: PipelineProblem, at: dict[Key, TimedOp], should_stop: StopCheck
) -> Iterator[Violation]:
    """Rules 2 and 3, and the fixed micro-batch order."""
    fixed = problem.micro_batch_order is MicroBatchOrder.FIXED

    def after(late: Key, early: Key, lag_ns: int = 0) -> tuple[Violation, ...]:
        one, other = at.get(late), at.get(early)
        if one is None or other is None or one.start_ns >= other.end_ns + lag_ns:
            return ()
        found = Violation(
            "starts too early",
            f"{name_of(late)} starts at {one.start_ns} ns, before {name_of(early)} "
            f"ends ({other.end_ns} ns)" + (f" plus {lag_ns} ns" if lag_ns else ""),
        )
        return (found,)

    for s in watched(range(len(problem.stages)), should_stop, 1):
        for m in range(problem.micro_batches):
            forward, backward, weight = ("F", s, m), ("B", s, m), ("W", s, m)
            offload, reload = ("O", s, m), ("R", s, m)
            if s:
                hop = problem.transfers[s - 1]
                yield from after(forward, ("F", s - 1, m), hop.forward_ns[m])
                yield from after(("B", s - 1, m), backward, hop.backward_ns[m])
            yield from after(backward, forward)
            yield from after(weight, backward)
            yield from after(offload, forward)
            yield from after(reload, offload)
            yield from after(backward, reload)
            if fixed and m:
                yield from after(forward, ("F", s, m - 1))
                yield from after(backward, ("B", s, m - 1))
                yield from after(weight, ("W", s, m - 1))


def _exclusivity_violations(
    problem: PipelineProblem, ops: tuple[TimedOp, ...], should_stop: StopCheck
) -> Iterator[Violation]:
    """Rule 4: one operation at a time per device and per channel of a host link."""
    users: dict[str, list[TimedOp]] = defaultdict(list)
    names: dict[tuple[str, int], str] = {}
    for op in watched(ops, should_stop):
        kind, s, _, start_ns, end_ns = op
        if end_ns == start_ns:
            continue
        if (kind, s) not in names:
            names[kind, s] = f"device {problem.stages[s].device}"
            if kind in "OR":
                link, way = problem.channel(s, kind)
                names[kind, s] = f"host link of {link} {way}".rstrip()
        users[names[kind, s]].append(op)
    for user, own in watched(users.items(), should_stop, 1):
        own.sort(key=BY_TIME)
        for one, other in pairwise(own):
            if other.start_ns < one.end_ns:
                yield Violation(
                    "overlap",
                    f"{user}: {name_of(other.token)} starts at {other.start_ns} ns while "
                    f"{name_of(one.token)} runs until {one.end_ns} ns",
                )


def _memory_violations(
    problem: PipelineProblem, schedule: Schedule, should_stop: StopCheck
) -> Iterator[Violation]:
    """Rules 5 and 6: device and host memory stay within their limits, and are given back."""
    limits = [
        *(
            (f"device {d}", device.activation_memory_bytes)
            for d, device in enumerate(problem.devices)
        ),
        *((f"host {h}", host.memory_bytes) for h, host in enumerate(problem.hosts)),
    ]
    events = [
        *device_memory_events(problem, watched(schedule.ops, should_stop)),
        *host_memory_events(problem, watched(schedule.ops, should_stop)),
    ]
    peaks = [*schedule.peak_memory_bytes, *schedule.host_peak_memory_bytes]
    if len(peaks) != len(limits):
        yield Violation("wrong figure", f"{len(peaks)} memory peaks for {len(limits)} memories")
        return
    memories = zip(limits, events, peaks, strict=True)
    for (owner, limit), own, reported in watched(memories, should_stop, 1):
        timeline = memory_timeline(own)
        peak = max((used for _, used in timeline), default=0)
        if timeline and timeline[-1][1]:
            yield Violation("memory leak", f"{owner}: {timeline[-1][1]} bytes are never freed")
        if limit is not None and peak > limit:
            when = next(when for when, used in timeline if used > limit)
            yield Violation(
                "out of memory", f"{owner}: peak {peak} bytes, limit {limit}, passed at {when} ns"
            )
        if reported != peak:
            yield Violation("wrong figure", f"{owner}: peak {peak} bytes, reported {reported}")


def _figure_violations(
    problem: PipelineProblem, schedule: Schedule, should_stop: StopCheck
) -> Iterator[Violation]:
    """Rule 7: the makespan and the steady span are what the operations say."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for op in watched(schedule.ops, should_stop):
        kind, s, _, start_ns, end_ns = op
        if kind in "FBW":
            d = problem.stages[s].device
            first[d] = min(first.get(d, start_ns), start_ns)
            last[d] = max(last.get(d, end_ns), end_ns)
    ends = {d: end + problem.devices[d].epilogue_ns for d, end in last.items()}
    makespan = max(ends.values()) - min(first.values())
    span = max(ends[d] - first[d] for d in ends)
    if schedule.makespan_ns != makespan:
        yield Violation("wrong figure", f"makespan {makespan} ns, reported {schedule.makespan_ns}")
    if schedule.steady_span_ns != span:
        yield Violation("wrong figure", f"span {span} ns, reported {schedule.steady_span_ns}")
