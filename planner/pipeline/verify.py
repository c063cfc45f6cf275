"""Independent verification of a schedule against its problem: every rule of the data format.

Written against the rules, not against the code that makes schedules: it shares with that code
only the description of the problem and the memory events of an operation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from planner.pipeline.memory import device_memory_events, host_memory_events, memory_timeline
from planner.pipeline.problem import MicroBatchOrder, PipelineProblem
from planner.pipeline.schedule import OpKind, Schedule, TimedOp, Token

VERIFIER = "loadmaster schedule verifier 1"


@dataclass(frozen=True)
class Violation:
    """A broken rule: its short name, and a sentence with the operations and numbers."""

    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


def verify(problem: PipelineProblem, schedule: Schedule) -> list[Violation]:
    """Every rule that the schedule breaks, in reading order; empty if it is valid.

    If operations are missing, doubled or of the wrong length, only that is reported, since the
    other rules need complete operations.
    """
    violations = list(operation_violations(problem, schedule.ops))
    if violations:
        return violations
    at = {op.token: op for op in schedule.ops}
    return [
        *_dependency_violations(problem, at),
        *_exclusivity_violations(problem, schedule.ops),
        *_memory_violations(problem, schedule),
        *_figure_violations(problem, schedule),
    ]


def name_of(token: Token) -> str:
    """The operation in words."""
    return f"{token.op} of stage {token.stage}, micro-batch {token.micro_batch}"


def _durations(problem: PipelineProblem) -> dict[str, list[tuple[int, ...]]]:
    """Lengths (ns) by kind, stage and micro-batch."""
    return {
        "F": [stage.forward_ns for stage in problem.stages],
        "B": [stage.backward_input_ns for stage in problem.stages],
        "W": [stage.backward_weight_ns for stage in problem.stages],
        "O": [stage.offload_ns for stage in problem.stages],
        "R": [stage.reload_ns for stage in problem.stages],
    }


def operation_violations(problem: PipelineProblem, ops: tuple[TimedOp, ...]) -> Iterator[Violation]:
    """Rule 1: each operation once, of exactly its length, from 0 on."""
    seen: set[Token] = set()
    durations = _durations(problem)
    for op in ops:
        token = op.token
        known = (
            op.op in durations
            and 0 <= op.stage < len(problem.stages)
            and 0 <= op.micro_batch < problem.micro_batches
        )
        if not known:
            yield Violation("unknown operation", f"{name_of(token)} is not part of this problem")
            continue
        if token in seen:
            yield Violation("operation twice", f"{name_of(token)} appears more than once")
        seen.add(token)
        length = durations[op.op][op.stage][op.micro_batch]
        if op.end_ns - op.start_ns != length:
            yield Violation(
                "wrong length", f"{name_of(token)} lasts {op.end_ns - op.start_ns} ns, not {length}"
            )
        if op.start_ns < 0:
            yield Violation("starts before 0", f"{name_of(token)} starts at {op.start_ns} ns")
    for s, stage in enumerate(problem.stages):
        for m in range(problem.micro_batches):
            needed: tuple[OpKind, ...] = ("F", "B", "W") if stage.has_weight_op(m) else ("F", "B")
            for kind in needed:
                if Token(kind, s, m) not in seen:
                    yield Violation("operation missing", f"{name_of(Token(kind, s, m))} never runs")
            offload, reload = Token("O", s, m), Token("R", s, m)
            if (offload in seen) != (reload in seen):
                missing = reload if offload in seen else offload
                yield Violation("half an offload", f"{name_of(missing)} is missing")
            if offload in seen and not stage.offload_bytes[m]:
                yield Violation("nothing to offload", f"{name_of(offload)} has no bytes to move")


def _dependency_violations(
    problem: PipelineProblem, at: dict[Token, TimedOp]
) -> Iterator[Violation]:
    """Rules 2 and 3, and the fixed micro-batch order."""
    fixed = problem.micro_batch_order is MicroBatchOrder.FIXED

    def after(late: Token, early: Token, lag_ns: int = 0) -> tuple[Violation, ...]:
        one, other = at.get(late), at.get(early)
        if one is None or other is None or one.start_ns >= other.end_ns + lag_ns:
            return ()
        found = Violation(
            "starts too early",
            f"{name_of(late)} starts at {one.start_ns} ns, before {name_of(early)} "
            f"ends ({other.end_ns} ns)" + (f" plus {lag_ns} ns" if lag_ns else ""),
        )
        return (found,)

    for s in range(len(problem.stages)):
        for m in range(problem.micro_batches):
            forward, backward = Token("F", s, m), Token("B", s, m)
            offload, reload = Token("O", s, m), Token("R", s, m)
            if s:
                hop = problem.transfers[s - 1]
                yield from after(forward, Token("F", s - 1, m), hop.forward_ns[m])
                yield from after(Token("B", s - 1, m), backward, hop.backward_ns[m])
            yield from after(backward, forward)
            yield from after(Token("W", s, m), backward)
            yield from after(offload, forward)
            yield from after(reload, offload)
            yield from after(backward, reload)
            if fixed and m:
                yield from after(forward, Token("F", s, m - 1))
                yield from after(backward, Token("B", s, m - 1))
                yield from after(Token("W", s, m), Token("W", s, m - 1))


def _exclusivity_violations(
    problem: PipelineProblem, ops: tuple[TimedOp, ...]
) -> Iterator[Violation]:
    """Rule 4: one operation at a time per device and per channel of a host link."""
    users: dict[str, list[TimedOp]] = defaultdict(list)
    for op in ops:
        if op.end_ns == op.start_ns:
            continue
        if op.op in "FBW":
            users[f"device {problem.stages[op.stage].device}"].append(op)
        else:
            link, way = problem.channel(op.stage, op.op)
            users[f"host link of {link} {way}".rstrip()].append(op)
    for user, own in users.items():
        own.sort(key=attrgetter("start_ns", "end_ns"))
        for one, other in pairwise(own):
            if other.start_ns < one.end_ns:
                yield Violation(
                    "overlap",
                    f"{user}: {name_of(other.token)} starts at {other.start_ns} ns while "
                    f"{name_of(one.token)} runs until {one.end_ns} ns",
                )


def _memory_violations(problem: PipelineProblem, schedule: Schedule) -> Iterator[Violation]:
    """Rules 5 and 6: device and host memory stay within their limits, and are given back."""
    limits = [
        *(
            (f"device {d}", device.activation_memory_bytes)
            for d, device in enumerate(problem.devices)
        ),
        *((f"host {h}", host.memory_bytes) for h, host in enumerate(problem.hosts)),
    ]
    events = [
        *device_memory_events(problem, schedule.ops),
        *host_memory_events(problem, schedule.ops),
    ]
    peaks = [*schedule.peak_memory_bytes, *schedule.host_peak_memory_bytes]
    if len(peaks) != len(limits):
        yield Violation("wrong figure", f"{len(peaks)} memory peaks for {len(limits)} memories")
        return
    for (owner, limit), own, reported in zip(limits, events, peaks, strict=True):
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


def _figure_violations(problem: PipelineProblem, schedule: Schedule) -> Iterator[Violation]:
    """Rule 7: the makespan and the steady span are what the operations say."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for op in schedule.ops:
        if op.op in "FBW":
            d = problem.stages[op.stage].device
            first[d] = min(first.get(d, op.start_ns), op.start_ns)
            last[d] = max(last.get(d, op.end_ns), op.end_ns)
    ends = {d: end + problem.devices[d].epilogue_ns for d, end in last.items()}
    makespan = max(ends.values()) - min(first.values())
    span = max(ends[d] - first[d] for d in ends)
    if schedule.makespan_ns != makespan:
        yield Violation("wrong figure", f"makespan {makespan} ns, reported {schedule.makespan_ns}")
    if schedule.steady_span_ns != span:
        yield Violation("wrong figure", f"span {span} ns, reported {schedule.steady_span_ns}")
